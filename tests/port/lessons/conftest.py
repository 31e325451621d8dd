"""What must hold of every alignment, and what of two sources in which definitions have twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from port.lessons import Alignment, Kind
from port.lessons.outline import OutlineItem, flat, outline


def assert_whole(alignment: Alignment) -> None:
    """Every line of both sides stands in one row, with its number and in order; no row is empty."""
    for side, source in enumerate((alignment.left, alignment.right)):
        lines = [row[side] for row in alignment.rows if row[side] is not None]
        assert [line.number for line in lines] == list(range(1, len(source.lines) + 1)), source.name
        assert [line.text for line in lines] == list(source.lines), source.name
    for row in alignment.rows:
        texts = [line and line.text for line in row]
        assert texts != [None, None]
        expected = Kind.EQUAL if texts[0] == texts[1] else Kind.CHANGED
        assert row.kind is (Kind.ONLY_RIGHT if row.left is None else Kind.ONLY_LEFT if row.right is None else expected)


def apart(alignment: Alignment) -> list[str]:
    """Definitions and titles of one qualified name on both sides that do not stand opposite each other."""
    lines = [_lines_by_name(outline(source.lines)) for source in (alignment.left, alignment.right)]
    opposite = {(row.left.number, row.right.number) for row in alignment.rows if row.left and row.right}
    twins = lines[0].keys() & lines[1].keys()
    return sorted(name for name in twins if (lines[0][name], lines[1][name]) not in opposite)


def _lines_by_name(parts: tuple[OutlineItem, ...]) -> dict[str, int]:
    named = [(name, part.line + 1) for name, part in flat(parts)]
    once = [name for name, _ in named]
    return {name: line for name, line in named if once.count(name) == 1}


@pytest.fixture(scope="session")
def whole() -> Callable[[Alignment], None]:
    return assert_whole


@pytest.fixture(scope="session")
def parted() -> Callable[[Alignment], list[str]]:
    return apart
