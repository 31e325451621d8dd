"""Rolls rows that repeat by an index into one row with name patterns: ``blocks.{i}.norm.weight``, for each of ``{i}``.

Adjacent rows that count the same index are one loop: its first round is all of them at the first number, and so on. So
the order of the rows is kept, and unrolling restores what was rolled up.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

Rest = TypeVar("Rest")
Names = tuple[str, ...]
Numbers = tuple[int, ...]
Shape = tuple[tuple[Names, ...], str]
"""A row without the numbers in its names: the text between them, and the rest."""

LETTERS = "ijklmn"
MOST = 1_000_000
"""The largest number of rows of an unrolled mapping."""
_TRIED = 256
"""How many rows like one are tried as the next round's."""
_NUMBER = re.compile(r"(?:^|(?<=[._]))(?:0|[1-9][0-9]*)(?=\.|$)")


@dataclass(frozen=True)
class PatternRow(Generic[Rest]):
    """A row of a mapping.

    Attributes:
        names: the names of all its tensors, on both sides.
        rest: its other values.
        each: the letters in its names → their numbers, the outermost first.
    """

    names: Names
    rest: Rest
    each: Mapping[str, Numbers] = field(default_factory=dict)


def rolled(rows: Sequence[PatternRow[Rest]]) -> list[PatternRow[Rest]]:
    """Roll up rows that repeat by an index, with the same order and the same rest."""
    # Names that contain braces stay as they are, and so do all beside them.
    if any("{" in name for row in rows for name in row.names):
        return list(rows)
    return list(_rolled(list(rows), LETTERS))


def unrolled(rows: Sequence[PatternRow[Rest]], most: int = MOST) -> list[PatternRow[Rest]]:
    """Expand each row.

    Raises:
        ValueError: an index that occurs in none of a row's names, or too many rows.
    """
    found = []
    for row in rows:
        for letter in row.each:
            if not any(f"{{{letter}}}" in name for name in row.names):
                raise ValueError(f"{', '.join(row.names)}: {{{letter}}} is in none of its names")
    for row in _unrolled(list(rows)):
        found.append(row)
        if len(found) > most:
            raise ValueError(f"its indices count more than {most} entries")
    return found


def counted(numbers: Numbers) -> str:
    """Format as ``0 … 11``, or list all numbers if they have gaps."""
    is_range = len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} … {numbers[-1]}" if is_range else ", ".join(map(str, numbers))


def counts(each: Mapping[str, Numbers]) -> str:
    """Format the letters of a row and their values: ``i = 0 … 11, j = 0, 1``."""
    return ", ".join(f"{letter} = {counted(numbers)}" for letter, numbers in each.items())


def _unrolled(rows: list[PatternRow[Rest]]) -> Iterator[PatternRow[Rest]]:
    start = 0
    while start < len(rows):
        if not rows[start].each:
            yield rows[start]
            start += 1
            continue
        first = _outermost(rows[start])
        end = next((k for k in range(start, len(rows)) if _outermost(rows[k]) != first), len(rows))
        letter, numbers = first
        for number in numbers:
            yield from _unrolled([_at(row, letter, number) for row in rows[start:end]])
        start = end


def _outermost(row: PatternRow[Rest]) -> tuple[str, Numbers]:
    return next(iter(row.each.items()), ("", ()))


def _at(row: PatternRow[Rest], letter: str, number: int) -> PatternRow[Rest]:
    names = tuple(name.replace(f"{{{letter}}}", str(number)) for name in row.names)
    return replace(row, names=names, each={other: numbers for other, numbers in row.each.items() if other != letter})


def _rolled(rows: list[PatternRow[Rest]], letters: str) -> Iterator[PatternRow[Rest]]:
    shapes = [(tuple(tuple(_NUMBER.split(name)) for name in row.names), repr(row.rest)) for row in rows]
    alike: dict[Shape, list[int]] = defaultdict(list)
    for place, shape in enumerate(shapes):
        alike[shape].append(place)
    numbers = [[int(number) for name in row.names for number in _NUMBER.findall(name)] for row in rows]
    before: tuple[str, Numbers] = ("", ())
    start = 0
    while start < len(rows):
        same = alike[shapes[start]]
        next_one = bisect(same, start)
        later = same[next_one : next_one + _TRIED]
        found = (_repeated(shapes, numbers, start, other - start) for other in later)
        best = max(filter(None, found), key=lambda each: (each.rows, -each.period), default=None) if letters else None
        if best is None:
            yield rows[start]
            before, start = ("", ()), start + 1
            continue
        # An adjacent loop that counts the same gets another letter.
        letter = next((each for each in letters if (each, best.counted) != before), "")
        if not letter:
            yield from rows[start : start + best.rows]
            before, start = ("", ()), start + best.rows
            continue
        body = [_with(rows[start + k], best.places[k], letter) for k in range(best.period)]
        for row in _rolled(body, letters.replace(letter, "")):
            yield replace(row, each={letter: best.counted, **row.each})
        before, start = (letter, best.counted), start + best.rows


@dataclass(frozen=True)
class _Repeat:
    """Rows that repeat: the number of rows per round, the rounds' numbers, and the positions of these in a round."""

    period: int
    counted: Numbers
    places: list[set[int]]

    @property
    def rows(self) -> int:
        return self.period * len(self.counted)


def _repeated(shapes: list[Shape], numbers: list[list[int]], start: int, period: int) -> _Repeat | None:
    """How often the rows from a position on repeat; None if they do not."""
    base, places, seen = range(start, start + period), [], set[int]()
    for k in base:
        if k + period >= len(shapes) or shapes[k] != shapes[k + period]:
            return None
        here = numbers[k], numbers[k + period]
        places.append({place for place, (one, two) in enumerate(zip(*here, strict=True)) if one != two})
        seen |= {numbers[k][place] for place in places[-1]}
        if not places[-1] or len(seen) > 1:
            return None
    counted = list(seen)
    for first in range(start + period, len(shapes) - period + 1, period):
        if any(shapes[k] != shapes[first + k - start] for k in base):
            break
        number = numbers[first][min(places[0])]
        if number in counted or not all(
            all(
                two == (number if place in places[k - start] else one)
                for place, (one, two) in enumerate(zip(numbers[k], numbers[first + k - start], strict=True))
            )
            for k in base
        ):
            break
        counted.append(number)
    return _Repeat(period, tuple(counted), places) if len(counted) > 1 else None


def _with(row: PatternRow[Rest], places: set[int], letter: str) -> PatternRow[Rest]:
    """Replace some of the numbers in a row's names by a letter."""
    count = iter(range(len("".join(row.names)) + 1))
    named = lambda match: f"{{{letter}}}" if next(count) in places else match[0]  # noqa: E731
    return replace(row, names=tuple(_NUMBER.sub(named, name) for name in row.names))
