"""Moves for one parameter under several names, and for several parameters that Flax keeps as their sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Boxes, Restriction, check_boxes, cut_from_one, kept, shape_of
from port.moves.move import Arrays, Shapes, at_least_one, count_of, equal_shape, same_dtype


@dataclass(frozen=True)
class Tie:
    """Merge several names of one tensor: torch's state dict lists a tied weight under each name, Flax holds it once."""

    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "tie")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        first = arrays[0]
        for array in arrays[1:]:
            if array is not first and not _same_bits(array, first):
                raise WeightsMismatch(f"{self}: the tensors differ, and the other side stores only one of them")
        return (first,)

    def shapes(self, shapes: Shapes) -> Shapes:
        return (equal_shape(self, shapes, self.count),)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        return Restriction(wanted * self.count, self if kept(wanted) else lambda arrays: ())

    def inverse(self) -> Copy:
        return Copy(self.count)

    def __str__(self) -> str:
        return f"tie({self.count})"


@dataclass(frozen=True)
class Copy:
    """Copy one tensor to several names."""

    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "copy")

    def __call__(self, arrays: Arrays) -> Arrays:
        count_of(self, tuple(array.shape for array in arrays), 1)
        return arrays * self.count

    def shapes(self, shapes: Shapes) -> Shapes:
        return count_of(self, shapes, 1) * self.count

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        return cut_from_one(wanted)

    def inverse(self) -> Tie:
        return Tie(self.count)

    def __str__(self) -> str:
        return f"copy({self.count})"


@dataclass(frozen=True)
class Sum:
    """Add several arrays: torch's two biases of a recurrent cell, of which Flax keeps one.

    The way back assigns the sum to the first and zeros to the others: the same function, not the same bits.
    """

    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "sum")

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        total = same_dtype(self, arrays)[0]
        for array in arrays[1:]:
            total = total + array
        return (np.asarray(total),)  # the sum of 0-d numpy arrays is a scalar, not an array

    def shapes(self, shapes: Shapes) -> Shapes:
        return (equal_shape(self, shapes, self.count),)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        return Restriction(wanted * self.count, self if kept(wanted) else lambda arrays: ())

    def inverse(self) -> Addends:
        return Addends(self.count)

    def __str__(self) -> str:
        return f"sum({self.count})"


@dataclass(frozen=True)
class Addends:
    """Turn one array into several that add up to it: itself and zeros."""

    count: int

    def __post_init__(self) -> None:
        at_least_one(self.count, "addends")

    def __call__(self, arrays: Arrays) -> Arrays:
        count_of(self, tuple(array.shape for array in arrays), 1)
        return (arrays[0], *(np.zeros_like(arrays[0]) for _ in range(self.count - 1)))

    def shapes(self, shapes: Shapes) -> Shapes:
        return count_of(self, shapes, 1) * self.count

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        first, others = wanted[0], kept(wanted[1:])
        if not kept(wanted):
            return Restriction((None,), lambda arrays: ())
        # The zeros need only the array's dtype: one element is enough.
        need = tuple(range(min(1, size)) for size in shapes[0]) if first is None else first

        def make(arrays: Arrays) -> Arrays:
            zeros = tuple(np.zeros(shape_of(box), arrays[0].dtype) for box in others)
            return zeros if first is None else (arrays[0], *zeros)

        return Restriction((need,), make)

    def inverse(self) -> Sum:
        return Sum(self.count)

    def __str__(self) -> str:
        return f"addends({self.count})"


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Compare bits, not values: NaN is not equal to itself. Large arrays are compared in place."""
    if one.dtype != other.dtype:
        return False
    return np.array_equal(_bytes(one), _bytes(other))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
