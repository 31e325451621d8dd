"""Equivalence classes of axes: axes that are added, multiplied or contracted along each other are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Axis = int
"""One axis of one array of a computation."""


@dataclass
class AxisClasses:
    """The classes of equal axes that following a computation finds; a union-find.

    Attributes:
        sizes: of each axis.
        factors: axis → the axes that a reshape splits it into or merges it from, the slowest first.
        parts: axis → the axes of its slices.
        joined: axis → the axes that are concatenated to it.
        looked_up: axes of tables along which rows are looked up → whether the indices depend on the inputs' values.
        shared: batch axes of products of two activations: heads.
        summed: contracted axes of products of two activations: the width of a head.
        channels: input and output channels of convolution kernels.
        products: of each product of activations with a weight, the weight's contracted axes and its others.
    """

    sizes: list[int] = field(default_factory=list)
    factors: dict[Axis, list[tuple[Axis, ...]]] = field(default_factory=dict)
    parts: dict[Axis, list[Axis]] = field(default_factory=dict)
    joined: dict[Axis, list[Axis]] = field(default_factory=dict)
    looked_up: dict[Axis, bool] = field(default_factory=dict)
    shared: set[Axis] = field(default_factory=set)
    summed: set[Axis] = field(default_factory=set)
    channels: set[Axis] = field(default_factory=set)
    products: list[tuple[tuple[Axis, ...], tuple[Axis, ...]]] = field(default_factory=list)
    _parents: list[Axis] = field(default_factory=list)

    def new(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        """Return new axes, each in a class of its own, for an array of this shape."""
        first = len(self.sizes)
        self.sizes += shape
        self._parents += range(first, first + len(shape))
        return tuple(range(first, first + len(shape)))

    def of(self, axis: Axis) -> Axis:
        """Return the representative of an axis's class."""
        while self._parents[axis] != axis:
            self._parents[axis] = axis = self._parents[self._parents[axis]]
        return axis

    def join(self, one: Axis, other: Axis) -> None:
        """Merge the classes of two axes, if they have one size. An axis of size 1 broadcasts, and is never merged."""
        if self.sizes[one] == self.sizes[other] > 1:
            self._parents[self.of(one)] = self.of(other)

    def join_all(self, some: Sequence[Axis], others: Sequence[Axis]) -> None:
        """Merge the classes of two arrays' axes, position by position."""
        for one, other in zip(some, others, strict=True):
            self.join(one, other)

    def cut(self, axis: Axis, into: Sequence[Axis]) -> None:
        """Record that an axis is the product of others; factors of the same sizes as before are the same axes."""
        for known in self.cuts_of(axis):
            if [self.sizes[each] for each in known] == [self.sizes[each] for each in into]:
                self.join_all(known, into)
        self.factors.setdefault(axis, []).append(tuple(into))

    def cuts_of(self, axis: Axis) -> list[tuple[Axis, ...]]:
        """Return the factorings of an axis's class, by their representatives."""
        own = self.of(axis)
        return [
            tuple(map(self.of, cut)) for other, cuts in self.factors.items() if self.of(other) == own for cut in cuts
        ]

    def products_with(self, factor: Axis) -> list[Axis]:
        """Return the axes that have a factoring with this factor."""
        own = self.of(factor)
        return [axis for axis, cuts in self.factors.items() if any(own in map(self.of, cut) for cut in cuts)]

    def parts_of(self, axis: Axis) -> list[Axis]:
        """Return the axes of the slices of an axis's class, by their representatives."""
        own = self.of(axis)
        return [self.of(part) for other, parts in self.parts.items() if self.of(other) == own for part in parts]

    def gated_part_of(self, axis: Axis) -> Axis | None:
        """Return the class of an axis's slices if these cover it evenly and are combined element by element.

        So an LSTM combines its four gates, and a gated linear unit its two halves. Rotary embeddings do so with the
        halves of a head, but concatenate the results to a head again: these are no gates.
        """
        parts, size = self.parts_of(axis), self.sizes[axis]
        rotated = [{*joined} for whole, joined in self.joinings().items() if self.sizes[whole] == size]
        for part in dict.fromkeys(parts):
            if parts.count(part) > 1 and size % self.sizes[part] == 0 and {part} not in rotated:
                return part
        return None

    def joinings(self) -> dict[Axis, list[Axis]]:
        """Return the concatenations: axis → the representatives of what is joined to it."""
        return {self.of(axis): [self.of(part) for part in parts] for axis, parts in self.joined.items()}
