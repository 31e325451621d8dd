"""What a move is: an invertible operation on arrays, as a value."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Boxes, Restriction, check_boxes

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Arrays = tuple[np.ndarray, ...]


class Move(Protocol):
    """An invertible operation on a tuple of arrays."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """The arrays after the move. Raises WeightsMismatch for arrays that it cannot take."""
        ...

    def shapes(self, shapes: Shapes) -> Shapes:
        """The shapes after the move. Raises WeightsMismatch for shapes that it cannot take."""
        ...

    def inverse(self) -> Move:
        """The move that undoes this one."""
        ...

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        """How boxes of its results are made of boxes of its arrays, which are no larger than they need be.

        Raises WeightsMismatch for shapes that it cannot take, and for boxes that its results have not.
        """
        ...


def restriction_of(moves: tuple[Move, ...], shapes: Shapes, wanted: Boxes) -> Restriction:
    """How boxes of what moves give, one after the other, are made of boxes of what they take."""
    steps: list[Shapes] = [shapes]
    for move in moves:
        steps.append(move.shapes(steps[-1]))
    check_boxes(wanted, steps[-1])
    parts: list[Restriction] = []
    for move, before in zip(reversed(moves), reversed(steps[:-1]), strict=True):
        parts.append(move.restriction(before, wanted))
        wanted = parts[-1].needs

    def make(arrays: Arrays) -> Arrays:
        for part in reversed(parts):
            arrays = part.make(arrays)
        return arrays

    return Restriction(wanted, make)


def namespace(array: np.ndarray) -> Any:
    """The functions for an array: numpy's, or jax.numpy's where the move is a part of a jax computation."""
    return array.__array_namespace__()


def count_of(move: Move, shapes: Shapes, wanted: int) -> Shapes:
    if len(shapes) != wanted:
        raise WeightsMismatch(f"{move} takes {wanted} array{'s' if wanted > 1 else ''}, got {len(shapes)}")
    return shapes


def gives_of(move: Move, shapes: Shapes, wanted: int) -> Shapes:
    if len(shapes) != wanted:
        raise WeightsMismatch(f"{move} is to give {wanted} array{'s' if wanted > 1 else ''}, and gives {len(shapes)}")
    return shapes


def equal_shape(move: Move, shapes: Shapes, count: int) -> Shape:
    count_of(move, shapes, count)
    if len(set(shapes)) != 1:
        raise WeightsMismatch(f"{move} takes arrays of one shape, got {shapes}")
    return shapes[0]


def same_dtype(move: Move, arrays: Arrays) -> Arrays:
    # Concatenating a float32 with a float64 would silently change one of them.
    if len({array.dtype for array in arrays}) != 1:
        raise WeightsMismatch(f"{move} takes arrays of one dtype, got {', '.join(str(a.dtype) for a in arrays)}")
    return arrays


def sizes_of(sizes: tuple[int, ...], what: str) -> None:
    if any(size < 0 for size in sizes):
        raise WeightsMismatch(f"{what} has sizes from 0 on, got {plain(sizes)}")


def at_least_one(count: int, what: str) -> None:
    if count < 1:
        raise WeightsMismatch(f"{what} is of one array or more, got {count}")


def plain(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"
