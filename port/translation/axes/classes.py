"""Axes of arrays that are one axis: what is added, multiplied or contracted along each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Axis = int
"""One axis of one array of a computation."""


@dataclass
class AxisClasses:
    """Which axes are one, as far as a computation was followed; a union-find.

    Attributes:
        sizes: of each axis.
        factors: an axis → what it was cut into by a reshape, or made of, the first the slowest.
        parts: an axis → the axes of the slices that it was cut into.
        looked_up: axes of tables that were looked up in: with indices that depend on the inputs' values, or others.
        shared: axes along which an array of activations was multiplied with another without a sum: heads.
        summed: axes along which an array of activations was multiplied with another and summed: the width of a head.
        channels: axes of convolutions' kernels: what they take, and what they give.
    """

    sizes: list[int] = field(default_factory=list)
    factors: dict[Axis, list[tuple[Axis, ...]]] = field(default_factory=dict)
    parts: dict[Axis, list[Axis]] = field(default_factory=dict)
    looked_up: dict[Axis, bool] = field(default_factory=dict)
    shared: set[Axis] = field(default_factory=set)
    summed: set[Axis] = field(default_factory=set)
    channels: set[Axis] = field(default_factory=set)
    _parents: list[Axis] = field(default_factory=list)

    def new(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        """The axes of an array of which nothing is known yet."""
        first = len(self.sizes)
        self.sizes += shape
        self._parents += range(first, first + len(shape))
        return tuple(range(first, first + len(shape)))

    def of(self, axis: Axis) -> Axis:
        """The one that stands for all that are the same as an axis."""
        while self._parents[axis] != axis:
            self._parents[axis] = axis = self._parents[self._parents[axis]]
        return axis

    def join(self, one: Axis, other: Axis) -> None:
        """Say that two axes are one. An axis of one element may stand for any, and says nothing."""
        if self.sizes[one] == self.sizes[other] > 1:
            self._parents[self.of(one)] = self.of(other)

    def join_all(self, some: Sequence[Axis], others: Sequence[Axis]) -> None:
        """Say that the axes of two arrays are the same, each by its place."""
        for one, other in zip(some, others, strict=True):
            self.join(one, other)

    def cut(self, axis: Axis, into: Sequence[Axis]) -> None:
        """Say that an axis is the product of others."""
        self.factors.setdefault(axis, []).append(tuple(into))

    def cuts_of(self, axis: Axis) -> list[tuple[Axis, ...]]:
        """What an axis, or one that is the same, was cut into or made of."""
        own = self.of(axis)
        return [
            tuple(map(self.of, cut)) for other, cuts in self.factors.items() if self.of(other) == own for cut in cuts
        ]

    def parts_of(self, axis: Axis) -> list[Axis]:
        """The axes of the slices of an axis."""
        own = self.of(axis)
        return [self.of(part) for other, parts in self.parts.items() if self.of(other) == own for part in parts]
