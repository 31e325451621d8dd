"""Moves that make one array of several, or several of one: split and join, stack and unstack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Box, Boxes, Restriction, along, check_boxes, cut, cut_from_one, moved, whole
from port.moves.move import (
    Arrays,
    Shapes,
    at_least_one,
    count_of,
    equal_shape,
    namespace,
    plain,
    same_dtype,
    sizes_of,
)


@dataclass(frozen=True)
class Split:
    """Split one array into several, along an existing axis."""

    axis: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        at_least_one(len(self.sizes), "split")
        sizes_of(self.sizes, "split")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        return tuple(namespace(arrays[0]).split(arrays[0], np.cumsum(self.sizes)[:-1].tolist(), self.axis))

    def shapes(self, shapes: Shapes) -> Shapes:
        (shape,) = count_of(self, shapes, 1)
        if not 0 <= self.axis < len(shape) or shape[self.axis] != sum(self.sizes):
            raise WeightsMismatch(f"{self} needs {sum(self.sizes)} elements along axis {self.axis}, got shape {shape}")
        return tuple((*shape[: self.axis], size, *shape[self.axis + 1 :]) for size in self.sizes)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        begins = [0, *np.cumsum(self.sizes).tolist()]
        held = tuple(
            None if box is None else along(box, self.axis, moved(box[self.axis], begin))
            for box, begin in zip(wanted, begins, strict=False)
        )
        return cut_from_one(held)

    def inverse(self) -> Join:
        return Join(self.axis, self.sizes)

    def __str__(self) -> str:
        return f"split(axis {self.axis} into {plain(self.sizes)})"


@dataclass(frozen=True)
class Join:
    """Concatenate several arrays along an existing axis."""

    axis: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        at_least_one(len(self.sizes), "join")
        sizes_of(self.sizes, "join")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        return (namespace(arrays[0]).concatenate(same_dtype(self, arrays), self.axis),)

    def shapes(self, shapes: Shapes) -> Shapes:
        count_of(self, shapes, len(self.sizes))
        first = shapes[0]
        for shape, size in zip(shapes, self.sizes, strict=True):
            wanted = (*first[: self.axis], size, *first[self.axis + 1 :])
            if not 0 <= self.axis < len(first) or shape != wanted:
                raise WeightsMismatch(
                    f"{self} needs arrays of these sizes along that axis, equal along the others, got shapes {shapes}"
                )
        return ((*first[: self.axis], sum(self.sizes), *first[self.axis + 1 :]),)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        (box,) = wanted
        if box is None:
            return Restriction((None,) * len(self.sizes), lambda arrays: ())
        needs: list[Box | None] = []
        begin = 0
        for size in self.sizes:
            low, high = max(box[self.axis].start - begin, 0), min(box[self.axis].stop - begin, size)
            needs.append(along(box, self.axis, range(low, high)) if low < high else None)
            begin += size
        if not any(needs):  # an empty box still has a dtype
            needs[0] = along(box, self.axis, range(0))
        sizes = tuple(len(need[self.axis]) for need in needs if need is not None)
        return Restriction(tuple(needs), Join(self.axis, sizes))

    def inverse(self) -> Split:
        return Split(self.axis, self.sizes)

    def __str__(self) -> str:
        return f"join(axis {self.axis} of {plain(self.sizes)})"


@dataclass(frozen=True)
class Stack:
    """Stack arrays of equal shape along a new axis: separate layers into the layers of a scan."""

    axis: int
    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "stack")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        return (namespace(arrays[0]).stack(same_dtype(self, arrays), self.axis),)

    def shapes(self, shapes: Shapes) -> Shapes:
        shape = equal_shape(self, shapes, self.count)
        if not 0 <= self.axis <= len(shape):
            raise WeightsMismatch(f"{self} needs arrays of at least {self.axis} axes, got shape {shape}")
        return ((*shape[: self.axis], self.count, *shape[self.axis :]),)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        (box,) = wanted
        if box is None:
            return Restriction((None,) * self.count, lambda arrays: ())
        each = (*box[: self.axis], *box[self.axis + 1 :])
        if not box[self.axis]:  # an empty box still has a dtype
            stacked = Stack(self.axis, 1)
            return Restriction(
                (each, *(None,) * (self.count - 1)),
                lambda arrays: (cut(stacked(arrays)[0], along(whole(stacked(arrays)[0].shape), self.axis, range(0))),),
            )
        needs = tuple(each if place in box[self.axis] else None for place in range(self.count))
        return Restriction(needs, Stack(self.axis, len(box[self.axis])))

    def inverse(self) -> Unstack:
        return Unstack(self.axis, self.count)

    def __str__(self) -> str:
        return f"stack({self.count} on axis {self.axis})"


@dataclass(frozen=True)
class Unstack:
    """Split one array into several along an axis, which is removed."""

    axis: int
    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "unstack")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        along = namespace(arrays[0]).moveaxis(arrays[0], self.axis, 0)
        # Without the ellipsis, a vector's elements would be scalars, not arrays.
        return tuple(along[place, ...] for place in range(self.count))

    def shapes(self, shapes: Shapes) -> Shapes:
        (shape,) = count_of(self, shapes, 1)
        if not 0 <= self.axis < len(shape) or shape[self.axis] != self.count:
            raise WeightsMismatch(f"{self} needs {self.count} elements along axis {self.axis}, got shape {shape}")
        return ((*shape[: self.axis], *shape[self.axis + 1 :]),) * self.count

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        held = tuple(
            None if box is None else (*box[: self.axis], range(place, place + 1), *box[self.axis :])
            for place, box in enumerate(wanted)
        )
        part = cut_from_one(held)
        return Restriction(part.needs, lambda arrays: tuple(array.squeeze(self.axis) for array in part.make(arrays)))

    def inverse(self) -> Stack:
        return Stack(self.axis, self.count)

    def __str__(self) -> str:
        return f"unstack({self.count} of axis {self.axis})"
