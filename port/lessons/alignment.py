"""Aligns two sources, definition by definition and line by line, as plain data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from port.lessons.anchors import matched
from port.lessons.outline import DoesNotParse, OutlineItem, outline
from port.lessons.pairing import Pairs, pair_lines
from port.lessons.source import SourceText


class Kind(StrEnum):
    """How the two lines of a row relate."""

    EQUAL = "equal"
    CHANGED = "changed"
    ONLY_LEFT = "only left"
    ONLY_RIGHT = "only right"


class NumberedLine(NamedTuple):
    """A line of a file, and its number, counted from 1."""

    number: int
    text: str


class AlignedRow(NamedTuple):
    """Two lines side by side; None where a line has no twin."""

    left: NumberedLine | None
    right: NumberedLine | None

    @property
    def kind(self) -> Kind:
        """Compare both lines; equal ones match including whitespace."""
        if self.left is None or self.right is None:
            return Kind.ONLY_LEFT if self.right is None else Kind.ONLY_RIGHT
        return Kind.EQUAL if self.left.text == self.right.text else Kind.CHANGED


@dataclass(frozen=True)
class Alignment:
    """Every line of both sources once, in order."""

    left: SourceText
    right: SourceText
    rows: tuple[AlignedRow, ...]
    remarks: tuple[str, ...] = ()
    """what a reader should know about the two sources"""

    def share_opposite(self) -> float:
        """The share of non-blank lines that have a line of the other side opposite."""
        lines = [(line, None not in row) for row in self.rows for line in row if line is not None and line.text.strip()]
        return sum(opposite for _, opposite in lines) / len(lines) if lines else 1.0


class Stretch(NamedTuple):
    """Lines on the left, and the lines on the right among which they have their twins."""

    left: range
    right: range
    together: bool = False
    """one line each, which are twins whatever they contain"""
    loose: tuple[Sequence[OutlineItem], Sequence[OutlineItem]] = ((), ())
    """definitions in it that have no twin of the same name"""


def align(left: SourceText, right: SourceText) -> Alignment:
    """Align two sources.

    Definitions with the same qualified name are placed opposite each other, as many as keep their order, and so are
    cell titles; between them, lines are placed opposite the ones that they share most words with. A source that is not
    Python is aligned by lines alone.
    """
    remarks = [f"{source.name} {remark}" for source in (left, right) for remark in source.remarks]
    parts: list[tuple[OutlineItem, ...]] = []
    for source in (left, right):
        try:
            parts.append(outline(source.lines))
        except DoesNotParse as error:
            remarks.append(f"{source.name} does not parse ({error}): aligned by lines alone")
    ours, theirs = parts if len(parts) == 2 else ((), ())
    cut = stretches(ours, theirs, range(len(left.lines)), range(len(right.lines)))
    rows = [row for stretch in cut for row in _rows(left, right, stretch)]
    return Alignment(left, right, tuple(rows), tuple(remarks))


def stretches(
    left_parts: Sequence[OutlineItem], right_parts: Sequence[OutlineItem], left: range, right: range
) -> Iterator[Stretch]:
    """Cut both sources at their matched parts, from the first line to the last: no line's twin is beyond a cut."""

    def between(ours: range, theirs: range) -> Stretch:
        return Stretch(ours, theirs, loose=(_starting(left_parts, ours), _starting(right_parts, theirs)))

    for ours, theirs in matched(left_parts, right_parts):
        yield between(range(left.start, ours.start), range(right.start, theirs.start))
        yield Stretch(range(ours.start, ours.line), range(theirs.start, theirs.line))
        yield Stretch(range(ours.line, ours.line + 1), range(theirs.line, theirs.line + 1), together=True)
        yield Stretch(range(ours.line + 1, ours.body), range(theirs.line + 1, theirs.body))
        bodies = range(ours.body, ours.stop), range(theirs.body, theirs.stop)
        yield from stretches(ours.parts, theirs.parts, *bodies)
        left, right = range(ours.stop, left.stop), range(theirs.stop, right.stop)
    yield between(left, right)


def _rows(left: SourceText, right: SourceText, stretch: Stretch) -> Iterator[AlignedRow]:
    ours = [left.lines[i] for i in stretch.left]
    theirs = [right.lines[j] for j in stretch.right]
    pairs = [(0, 0)] if stretch.together else pair_lines(ours, theirs)
    for side, lines, start in ((0, ours, stretch.left.start), (1, theirs, stretch.right.start)):
        loose = [range(part.start - start, part.stop - start) for part in stretch.loose[side]]
        pairs = _without_strays(pairs, side, loose, lines)
    i = j = 0
    for twin_i, twin_j in [*pairs, (len(ours), len(theirs))]:
        yield from (AlignedRow(NumberedLine(stretch.left[n] + 1, ours[n]), None) for n in range(i, twin_i))
        yield from (AlignedRow(None, NumberedLine(stretch.right[n] + 1, theirs[n])) for n in range(j, twin_j))
        if twin_i < len(ours):
            yield AlignedRow(
                NumberedLine(stretch.left[twin_i] + 1, ours[twin_i]),
                NumberedLine(stretch.right[twin_j] + 1, theirs[twin_j]),
            )
        i, j = twin_i + 1, twin_j + 1


def _starting(parts: Sequence[OutlineItem], lines: range) -> Sequence[OutlineItem]:
    first, last = (bisect_left(parts, line, key=lambda part: part.start) for line in (lines.start, lines.stop))
    return parts[first:last]


def _without_strays(pairs: Pairs, side: int, loose: Sequence[range], lines: Sequence[str]) -> Pairs:
    """Drop the pairs of a definition that has no twin of the same name, unless half of it has lines opposite.

    In that case it is the same under another name. A few lines that happen to be alike would only mislead.
    """
    opposite = {pair[side] for pair in pairs}
    strays: set[int] = set()
    for part in loose:
        speaking = {place for place in part if lines[place].strip()}
        if 2 * len(opposite & speaking) < len(speaking):
            strays.update(part)
    return [pair for pair in pairs if pair[side] not in strays]
