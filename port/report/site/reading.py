"""A page of two sources side by side: its rows, and its table of contents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from markupsafe import Markup

from port.lessons import Alignment, Kind, Lesson, NumberedLine, SourceText, Span, align, words_apart
from port.lessons.outline import DoesNotParse, flat, outline
from port.report.site.markup import highlighted, html_of
from port.visible import visible

SIDES = ("torch", "jax")


@dataclass(frozen=True)
class PageLine:
    """One line as the page shows it.

    Attributes:
        number: the line number, from 1.
        anchor: its id on the page.
        indent: the indentation in columns; wrapped lines are indented further.
        html: the text, as HTML.
    """

    number: int
    anchor: str
    indent: int
    html: Markup


@dataclass(frozen=True)
class ShownRow:
    """Two cells; None where a line has no twin."""

    kind: str
    cells: tuple[PageLine | None, PageLine | None]


@dataclass(frozen=True)
class Jump:
    """A definition or a cell's title: its name, its depth, and its line."""

    name: str
    depth: int
    anchor: str
    is_title: bool


@dataclass(frozen=True)
class Reading:
    """A page of two sources.

    Attributes:
        name: the lesson's name.
        about: its first sentence.
        alignment: both sources, aligned.
        path: the page's path from the site's folder.
        is_lesson: whether it is a lesson of the tour, rather than any two files.
        account: what the left source does, line by line, if `port script` has run it.
    """

    name: str
    about: str
    alignment: Alignment
    path: str
    is_lesson: bool = True
    account: str | None = None

    @property
    def sources(self) -> tuple[SourceText, SourceText]:
        """The left and the right source."""
        return self.alignment.left, self.alignment.right

    @property
    def files(self) -> tuple[str, str]:
        """The names of the two sources."""
        return visible(self.alignment.left.name), visible(self.alignment.right.name)

    @property
    def shown_account(self) -> str:
        """The account, ready for the page."""
        return "\n".join(visible(line) for line in (self.account or "").splitlines())

    @property
    def remarks(self) -> list[str]:
        """Remarks on both sources, for readers."""
        return [visible(remark) for remark in self.alignment.remarks]

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of rows of each kind."""
        return {str(kind): sum(row.kind is kind for row in self.alignment.rows) for kind in Kind}

    def rows(self, *, notes_at: str) -> list[ShownRow]:
        """Return the rows in order; ``notes_at`` is the notes page's path, relative to this page."""
        pieces = [highlighted(source.lines, is_python=_is_python(source)) for source in self.sources]
        shown = []
        for row in self.alignment.rows:
            marks: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())
            if row.kind is Kind.CHANGED and row.left and row.right:
                marks = words_apart(visible(row.left.text), visible(row.right.text))
            left, right = (
                line and _cell(side, line, html_of(of[line.number - 1], marked, notes_at=notes_at))
                for side, line, of, marked in zip(SIDES, row, pieces, marks, strict=True)
            )
            shown.append(ShownRow(row.kind.replace(" ", "-"), (left, right)))
        return shown

    def jumps(self) -> list[Jump]:
        """Return definitions and titles in the order of the rows: the left source's, and those only the right has."""
        found: dict[str, tuple[int, Jump]] = {}
        for place, (side, source) in enumerate(zip(SIDES, self.sources, strict=True)):
            try:
                parts = list(flat(outline(source.lines)))
            except DoesNotParse:
                continue
            rows = {line.number: row for row, pair in enumerate(self.alignment.rows) if (line := pair[place])}
            for name, part in parts:
                found.setdefault(name, (rows[part.line + 1], _jump(side, name, part.line)))
        return [jump for _, jump in sorted(found.values(), key=lambda one: one[0])]


def reading_of_lesson(lesson: Lesson) -> Reading:
    """Return a lesson's page."""
    path = f"lessons/{_slug(lesson.name)}.html"
    return Reading(lesson.name, lesson.about(), align(*lesson.sources()), path, account=lesson.account())


def reading_of_files(left: SourceText, right: SourceText, account: str | None = None) -> Reading:
    """Return the page of any two files, with the left one's account if there is one."""
    names = [visible(PurePath(source.name).name) for source in (left, right)]
    path = f"lessons/{'-'.join(map(_slug, names))}.html"
    return Reading(
        " ⇄ ".join(names), "Two files side by side.", align(left, right), path, is_lesson=False, account=account
    )


def _slug(name: str) -> str:
    """Return a file name for a name, such that links need no quoting."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:60] or "page"


def _is_python(source: SourceText) -> bool:
    return source.name.endswith((".py", ".pyi"))


def _cell(side: str, line: NumberedLine, html: Markup) -> PageLine:
    text = visible(line.text)
    return PageLine(line.number, f"{side}-{line.number}", min(len(text) - len(text.lstrip()), 40), html)


def _jump(side: str, name: str, line: int) -> Jump:
    is_title = name.startswith("# %%")
    said = visible(name.removeprefix("# %%").strip() if is_title else name.rpartition(".")[2])
    return Jump(said, 0 if is_title else name.count("."), f"{side}-{line + 1}", is_title)
