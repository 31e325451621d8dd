"""The site's search index: a list of entries, as data that every page loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from port.pairs.notes import Note
from port.pairs.tutorials import Outdated
from port.report.site.cheat_sheet import CheatSheetEntry
from port.report.site.guides import GuidePage
from port.report.site.reading import SIDES, Reading
from port.report.site.reference import Room
from port.visible import visible


@dataclass(frozen=True)
class SearchHit:
    """An entry of the search index.

    Attributes:
        rank: lower ranks come first in the results.
        title: the text that is searched and shown.
        where: the text shown next to it.
        link: the page and the anchor, from the site's folder.
    """

    rank: int
    title: str
    where: str
    link: str


def search_index(
    readings: Iterable[Reading], notes: Iterable[Note], outdated: Iterable[Outdated], entries: Iterable[CheatSheetEntry]
) -> list[SearchHit]:
    """Return entries for lessons, definitions, notes, the rows of both tables, and every line of the lessons."""
    found: list[SearchHit] = []
    for reading in readings:
        found += _of_reading(reading)
    for note in notes:
        title = f"{note.id} {note.title}"
        found.append(SearchHit(1, title, "differences", f"differences.html#{note.id}"))
        said = " ".join((note.torch, note.jax, note.remedy))
        found.append(SearchHit(3, said, f"differences, {title}", f"differences.html#{note.id}"))
    for row in outdated:
        title = " ".join(f"{row.says} → {row.today}".split())
        found.append(SearchHit(2, title, "old tutorials", f"tutorials.html#{row.id}"))
        said = " ".join((row.happened, row.torch)).strip()
        found.append(SearchHit(3, said, f"old tutorials, {row.id}", f"tutorials.html#{row.id}"))
    for number, entry in enumerate(entries):
        title = " ".join(" ⇄ ".join((entry.torch, *(twin.jax or "none" for twin in entry.twins))).split())
        found.append(SearchHit(1, title, f"cheat sheet, {entry.kind}", f"cheat_sheet.html#row-{number}"))
    return sorted(found, key=lambda one: one.rank)


def search_guides(guides: Iterable[GuidePage]) -> Iterator[SearchHit]:
    """Yield entries for guides, their headings, and the prose below each."""
    for guide in guides:
        yield SearchHit(0, guide.title, "guide", guide.path)
        for section in guide.sections:
            link = f"{guide.path}#{section.anchor}"
            if section.level > 1:
                yield SearchHit(1, section.title, f"guide, {guide.title}", link)
            if section.text:
                yield SearchHit(3, section.text, f"guide, {guide.title}", link)


def search_names(rooms: Iterable[Room]) -> Iterator[SearchHit]:
    """Yield entries for packages, their public names and methods, each with its docstring's first line."""
    for room in rooms:
        yield SearchHit(1, room.name, room.summary, room.path)
        for one in room.all_names():
            yield SearchHit(1 if one in room.names else 2, one.name, one.summary, f"{room.path}#{one.name}")


def _of_reading(reading: Reading) -> Iterator[SearchHit]:
    yield SearchHit(0, reading.name, reading.about, reading.path)
    for jump in reading.jumps():
        what = "cell" if jump.is_title else "definition"
        yield SearchHit(1, jump.name, f"{reading.name}, {what}", f"{reading.path}#{jump.anchor}")
    for side, source, file in zip(SIDES, reading.sources, reading.files, strict=True):
        for number, line in enumerate(source.lines, 1):
            if line.strip():
                where = f"{file}, line {number}"
                yield SearchHit(4, visible(line.strip())[:200], where, f"{reading.path}#{side}-{number}")
