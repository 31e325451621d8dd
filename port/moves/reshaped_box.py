"""Boxes through a reshape: the axes fall into groups with the same elements on both sides, each one row of elements.

Within a group, a box lies in a stretch of that row, and the stretch lies in a box of the shape before. Both are as
small as possible: where a group keeps its first axis, a box along it needs only its own elements; where a box cuts
through a later axis, everything between its first and last element is read, and cut away after the reshape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from port.moves.boxes import Box, cut, whole

Shape = tuple[int, ...]


def reshaped_box(before: Shape, after: Shape, box: Box) -> tuple[Box, ReshapedBox]:
    """The smallest box in shape ``before`` that contains a box in shape ``after``, and how to extract the latter."""
    if 0 in after or not all(box):
        return whole(before), ReshapedBox((prod(before),), (range(prod(before)),), after, box)
    needed: list[range] = []
    rows: list[int] = []
    stretches: list[range] = []
    shape: list[int] = []
    inner: list[range] = []
    for (first, last), (begin, end) in _groups(before, after):
        stretch, stretched, within = _stretch(after[begin:end], box[begin:end])
        held, start = _around(before[first:last], stretch)
        needed += held
        rows.append(prod(map(len, held)))
        stretches.append(range(stretch.start - start, stretch.stop - start))
        shape += stretched
        inner += within
    return tuple(needed), ReshapedBox(tuple(rows), tuple(stretches), tuple(shape), tuple(inner))


@dataclass(frozen=True)
class ReshapedBox:
    """How to extract a box from what was read for it.

    Attributes:
        rows: the length of each group's row in what was read.
        stretches: the part of each row to keep.
        shape: the stretches' shape after the reshape.
        inner: the box inside that shape.
    """

    rows: Shape
    stretches: Box
    shape: Shape
    inner: Box

    def __call__(self, array: np.ndarray) -> np.ndarray:
        return cut(cut(array.reshape(self.rows), self.stretches).reshape(self.shape), self.inner)


def _groups(before: Shape, after: Shape) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The first and last axes of each group on both sides: the shortest groups with equal numbers of elements."""
    first = begin = 0
    while first < len(before) or begin < len(after):
        last, end = min(first + 1, len(before)), min(begin + 1, len(after))
        while prod(before[first:last]) != prod(after[begin:end]):
            if prod(before[first:last]) < prod(after[begin:end]):
                last += 1
            else:
                end += 1
        yield (first, last), (begin, end)
        first, begin = last, end


def _stretch(shape: Shape, box: Box) -> tuple[range, list[int], list[range]]:
    """The stretch of a group's row that contains a box; the stretch's shape, and the box inside it."""
    axis = next((place for place, indices in enumerate(box) if len(indices) > 1), len(box))
    start = sum(indices.start * prod(shape[place + 1 :]) for place, indices in enumerate(box[: axis + 1]))
    if axis == len(box):
        return range(start, start + 1), [1] * len(box), [range(1)] * len(box)
    count = len(box[axis])
    stretched = [1] * axis + [count, *shape[axis + 1 :]]
    within = [range(1)] * axis + [range(count), *box[axis + 1 :]]
    return range(start, start + count * prod(shape[axis + 1 :])), stretched, within


def _around(shape: Shape, stretch: range) -> tuple[list[range], int]:
    """The smallest box that is a stretch of a group's row and contains the box, and where it starts."""
    held: list[range] = []
    start, rest = 0, stretch
    for place in range(len(shape)):
        inner = prod(shape[place + 1 :])
        low, high = rest.start // inner, (rest.stop - 1) // inner
        held.append(range(low, high + 1))
        start += low * inner
        rest = range(rest.start - low * inner, rest.stop - low * inner)
        if low != high:
            return held + [range(size) for size in shape[place + 1 :]], start
    return held, start
