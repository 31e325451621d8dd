"""Matches the parts of two sources that have the same name, as many as keep their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence

from port.lessons.outline import OutlineItem

# Up to so many pairs of one name (a property's setters, the branches of an `if`) are all tried.
TRIED = 1000


def matched(left: Sequence[OutlineItem], right: Sequence[OutlineItem]) -> list[tuple[OutlineItem, OutlineItem]]:
    """Match parts of the same name, in order on both sides: a longest set of pairs of which no two cross."""
    pairs = in_order([part.name for part in left], [part.name for part in right])
    return [(left[i], right[j]) for i, j in pairs]


def in_order(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of equal things, rising on both sides, as many as possible."""
    places: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, names in enumerate((left, right)):
        for place, name in enumerate(names):
            places[name][side].append(place)
    candidates: list[tuple[int, int]] = []
    for ours, theirs in places.values():
        if len(ours) * len(theirs) <= TRIED:
            candidates += ((i, j) for i in ours for j in theirs)
        else:  # the first with the first, the second with the second
            candidates += zip(ours, theirs, strict=False)
    # For one i, larger j come first: no two of them can follow each other in a rising set.
    candidates.sort(key=lambda pair: (pair[0], -pair[1]))
    return _longest_rising(candidates)


def _longest_rising(candidates: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A longest subsequence whose second positions rise, built by the length that ends at each."""
    lowest: list[int] = []  # the lowest end of all rising sets of length n + 1
    ends: list[int] = []  # and the candidate that it is
    before: list[int] = []
    for number, (_, j) in enumerate(candidates):
        length = bisect_left(lowest, j)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [j]
        ends[length : length + 1] = [number]
    chosen = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(candidates[number])
        number = before[number]
    return chosen[::-1]
