"""Replaces names that count an index by one pattern: ``layers.{i}.weight`` for all layers, which are one stack."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from port.mapping.patterns import LETTERS, Names, Numbers

_NUMBER = re.compile(r"(?:^|(?<=[._]))(?:0|[1-9][0-9]*)(?=\.|$)")


@dataclass(frozen=True)
class Gathered:
    """Names that repeat by an index.

    Attributes:
        names: the names of one round, with the letter in place of the number.
        letter: the letter.
        numbers: its values, round by round.
    """

    names: Names
    letter: str
    numbers: Numbers

    @property
    def all_names(self) -> Names:
        """The names of all rounds, one after the other."""
        mark = f"{{{self.letter}}}"
        return tuple(name.replace(mark, str(number)) for number in self.numbers for name in self.names)


def gathered(names: Names, taken: Collection[str] = ()) -> Gathered | None:
    """Replace the names of several rounds by those of one; None if they are not rounds.

    Args:
        names: the names of all rounds, one after the other.
        taken: letters already used in them.
    """
    letter = next((each for each in LETTERS if each not in taken), None)
    if letter is None or (not taken and any("{" in name for name in names)):
        return None
    for period in range(1, len(names) // 2 + 1):
        if len(names) % period == 0 and (found := _in_rounds(names, period, letter)) is not None:
            return found
    return None


def _in_rounds(names: Names, period: int, letter: str) -> Gathered | None:
    first, second = names[:period], names[period : 2 * period]
    patterns: list[str] = []
    numbers: list[int] = []
    for one, other in zip(first, second, strict=True):
        counts = list(_NUMBER.finditer(one))
        others = [match[0] for match in _NUMBER.finditer(other)]
        if _NUMBER.split(one) != _NUMBER.split(other):
            return None
        places = [match.span() for match, number in zip(counts, others, strict=True) if match[0] != number]
        if not places:
            return None
        start, end = places[0]
        numbers.append(int(one[start:end]))
        for begin, stop in reversed(places):
            one = f"{one[:begin]}{{{letter}}}{one[stop:]}"
        patterns.append(one)
    split = patterns[0].partition(f"{{{letter}}}")
    rounds = [re.fullmatch(rf"{re.escape(split[0])}(\d+)(?:\D.*)?", name) for name in names[::period]]
    if len(set(numbers)) > 1 or None in rounds:
        return None
    found = Gathered(tuple(patterns), letter, tuple(int(match[1]) for match in rounds if match is not None))
    return found if found.all_names == names else None
