"""The site's pages as text, by path: templates filled from lessons, notes, pairs, guides and docstrings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from port.pairs.notes import NOTES, Note
from port.pairs.tutorials import GIVEN, OUTDATED
from port.report.site.cheat_sheet import CheatSheetEntry, cheat_sheet
from port.report.site.guides import GuidePage, guides, link_from_guide, sources_of
from port.report.site.markup import highlighted, html_of, linked
from port.report.site.places import source_page
from port.report.site.prose import rendered
from port.report.site.reading import Reading
from port.report.site.reference import ROOT, PublicName, Room, reference
from port.report.site.search import search_guides, search_index, search_names

NOTES_PAGE, CHEAT_SHEET, TUTORIALS = "differences.html", "cheat_sheet.html", "tutorials.html"
STATIC = ("style.css", "site.js")
FAMILIES = {
    "W": "Weights and modules",
    "G": "Losses and gradients",
    "O": "Optimizers and schedules",
    "D": "Data parallelism",
    "A": "Gradient accumulation",
    "J": "Arrays and programs",
    "P": "Precision, and how close two right trainers come",
}
KINDS = {
    "layer": "Layers",
    "operator": "Operators",
    "loss": "Losses",
    "optimizer": "Optimizers",
    "schedule": "Schedules",
}


def pages(readings: Sequence[Reading]) -> Iterator[tuple[str, str]]:
    """Yield each file of the site: its path from the site's folder, and its text."""
    entries = cheat_sheet()
    for number, reading in enumerate(readings):
        around = {
            "previous": readings[number - 1] if number else None,
            "next": readings[number + 1] if number + 1 < len(readings) else None,
        }
        rows = reading.rows(notes_at=_up(reading.path) + NOTES_PAGE)
        yield _page("reading.html.jinja", reading.path, readings, reading=reading, rows=rows, **around)
    yield _page("index.html.jinja", "index.html", readings)
    families = {title: [note for note in NOTES if note.id[0] == letter] for letter, title in FAMILIES.items()}
    yield _page("differences.html.jinja", NOTES_PAGE, readings, families=families, cited=_cited(readings, entries))
    yield _page("tutorials.html.jinja", TUTORIALS, readings, outdated=OUTDATED, given=GIVEN)
    kinds = {
        title: [(number, entry) for number, entry in enumerate(entries) if entry.kind == kind]
        for kind, title in KINDS.items()
    }
    yield _page("cheat_sheet.html.jinja", CHEAT_SHEET, readings, kinds=kinds, source_page=source_page)
    written = guides()
    rooms = reference()
    yield from _guides(written, readings)
    yield from _reference(rooms, readings)
    yield from _sources(_files(entries, written, rooms), readings)
    yield "search_index.js", _search_index(readings, entries, written, rooms)
    for name in STATIC:
        yield name, (files("port.report.site") / "static" / name).read_text("utf-8")


def _guides(written: Sequence[GuidePage], readings: Sequence[Reading]) -> Iterator[tuple[str, str]]:
    prose = partial(rendered, notes_at=f"../{NOTES_PAGE}", link=link_from_guide)
    yield _page("guides.html.jinja", "guides/index.html", readings, guides=written, prose=prose)
    for number, guide in enumerate(written):
        around = {
            "previous": written[number - 1] if number else None,
            "next": written[number + 1] if number + 1 < len(written) else None,
        }
        body = prose(guide.text)
        yield _page("guide.html.jinja", guide.path, readings, guides=written, guide=guide, body=body, **around)


def _reference(rooms: Sequence[Room], readings: Sequence[Reading]) -> Iterator[tuple[str, str]]:
    shared = {"rooms": rooms, "prose": partial(rendered, notes_at=f"../{NOTES_PAGE}")}
    yield _page("reference.html.jinja", "reference/index.html", readings, **shared)
    for room in rooms:
        yield _page(
            "room.html.jinja", room.path, readings, room=room, source_page=source_page, signature=_signature, **shared
        )


def _signature(one: PublicName) -> Markup:
    return Markup("\n").join(html_of(line) for line in highlighted(one.signature_lines()))


def _files(entries: Sequence[CheatSheetEntry], written: Sequence[GuidePage], rooms: Sequence[Room]) -> list[str]:
    """Return the sources that other pages link to, as paths from ``port``."""
    pairs = {f"pairs/{entry.place.file}" for entry in entries if entry.place is not None}
    cited = {file for guide in written for file in sources_of(guide)}
    return sorted(pairs | cited | {one.file for room in rooms for one in room.all_names()})


def _sources(paths: Sequence[str], readings: Sequence[Reading]) -> Iterator[tuple[str, str]]:
    for file in paths:
        lines = (ROOT / file).read_text("utf-8").splitlines()
        path = source_page(file)
        shown = [html_of(line, notes_at=_up(path) + NOTES_PAGE) for line in highlighted(lines)]
        yield _page("source.html.jinja", path, readings, file=f"port/{file}", lines=shown)


def _page(template: str, path: str, readings: Sequence[Reading], **values: Any) -> tuple[str, str]:
    up = _up(path)
    to_notes = partial(linked, notes_at=up + NOTES_PAGE if path != NOTES_PAGE else "")
    text = _templates().get_template(template).render(path=path, up=up, readings=readings, linked=to_notes, **values)
    return path, text


def _up(path: str) -> str:
    """Return the relative path from a page to the site's folder."""
    return "../" * path.count("/")


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("port.report.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _cited(readings: Sequence[Reading], entries: Sequence[CheatSheetEntry]) -> Mapping[str, list[tuple[str, str]]]:
    """Return what cites each note, and where."""
    cited: dict[str, list[tuple[str, str]]] = {note.id: [] for note in NOTES}
    for reading in readings:
        text = "\n".join(line for source in reading.sources for line in source.lines)
        for note in NOTES:
            if _says(text, note):
                cited[note.id].append((reading.name, reading.path))
    for number, entry in enumerate(entries):
        for note_id in entry.notes:
            cited[note_id].append((entry.torch.partition("(")[0], f"{CHEAT_SHEET}#row-{number}"))
    return cited


def _says(text: str, note: Note) -> bool:
    return re.search(rf"\b{note.id}\b", text) is not None


def _search_index(
    readings: Sequence[Reading], entries: Sequence[CheatSheetEntry], written: Sequence[GuidePage], rooms: Sequence[Room]
) -> str:
    """Return the search index as a script: a page opened from a file can load a script, but cannot fetch data."""
    lessons = search_index(readings, NOTES, OUTDATED, entries)
    found = sorted([*search_guides(written), *search_names(rooms), *lessons], key=lambda one: one.rank)
    return "const SEARCH_INDEX = " + json.dumps([astuple(one) for one in found], separators=(",", ":")) + ";\n"
