"""Source lines as HTML: highlighted, escaped, note ids as links, and marks where twins differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Name

from port.lessons import Span
from port.pairs.notes import NOTES
from port.visible import visible

Piece = tuple[str, str]
"""A piece of a line: its class in the style sheet, and its text."""

NOTE_IDS = {note.id for note in NOTES}
CITED = re.compile(r"\b[A-Z]\d{1,2}\b")


def highlighted(lines: Sequence[str], *, is_python: bool = True) -> list[list[Piece]]:
    """Split each line into pieces. Invisible characters, and those that change direction, are written as escapes."""
    shown = [visible(line) for line in lines]
    plain = [[("", line)] for line in shown]
    if not is_python:
        return plain
    pieces: list[list[Piece]] = [[]]
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens("\n".join(shown)):
        for place, part in enumerate(text.split("\n")):
            if place:
                pieces.append([])
            if part:
                pieces[-1].append((_style(kind), part))
    said = ["".join(text for _, text in line) for line in pieces]
    return pieces if said == shown else plain  # fall back if the lexer lost a character


def html_of(pieces: Sequence[Piece], marks: Sequence[Span] = (), *, notes_at: str | None = None) -> Markup:
    """Return one line as HTML. ``marks`` are emphasised; note ids become links to the page ``notes_at``."""
    return Markup("").join(_html(style, text, marked, notes_at) for style, text, marked in _cut(pieces, marks))


def linked(text: str, notes_at: str) -> Markup:
    """Return a sentence as HTML: escaped, text in backticks as code, note ids as links."""
    halves = text.split("`")
    if len(halves) % 2 == 0:  # a backtick is unpaired
        return _linked(text, notes_at)
    return Markup("").join(
        Markup("<code>{}</code>").format(half) if place % 2 else _linked(half, notes_at)
        for place, half in enumerate(halves)
    )


def _style(kind: Any) -> str:
    if kind in Name and kind not in (Name.Decorator, Name.Function, Name.Class, Name.Builtin):
        return ""  # most words are names; they stay plain
    return STANDARD_TYPES.get(kind, "")


def _cut(pieces: Sequence[Piece], marks: Sequence[Span]) -> Iterator[tuple[str, str, bool]]:
    """Cut the pieces where a mark begins or ends, and yield whether each is marked."""
    ends = sorted({place for mark in marks for place in mark})
    start = 0
    for style, text in pieces:
        inside = [place for place in ends if start < place < start + len(text)]
        for first, last in pairwise([start, *inside, start + len(text)]):
            yield style, text[first - start : last - start], any(mark.start <= first < mark.stop for mark in marks)
        start += len(text)


def _html(style: str, text: str, marked: bool, notes_at: str | None) -> Markup:
    prose = style.startswith(("c", "s"))
    said = _linked(text, notes_at) if prose and notes_at is not None else escape(text)
    if style:
        said = Markup('<span class="{}">{}</span>').format(style, said)
    return Markup("<mark>{}</mark>").format(said) if marked else said


def _linked(text: str, notes_at: str) -> Markup:
    said, start = Markup(""), 0
    for found in CITED.finditer(text):
        if found[0] in NOTE_IDS:
            said += escape(text[start : found.start()])
            said += Markup('<a class="note" href="{0}#{1}">{1}</a>').format(notes_at, found[0])
            start = found.end()
    return said + escape(text[start:])
