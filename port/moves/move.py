"""The interface of a move: an invertible operation on arrays, as a value."""

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
        """Apply the move. Raises WeightsMismatch for arrays that it cannot take."""
        ...

    def shapes(self, shapes: Shapes) -> Shapes:
        """Return the output shapes. Raises WeightsMismatch for shapes that it cannot take."""
        ...

    def inverse(self) -> Move:
        """Return the move that undoes this one."""
        ...

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        """Return how boxes of the results are computed from boxes of the arrays, which are as small as possible.

        Raises WeightsMismatch for shapes that it cannot take, and for boxes outside its results.
        """
        ...


def restriction_of(moves: tuple[Move, ...], shapes: Shapes, wanted: Boxes) -> Restriction:
    """Return how boxes of the results of a sequence of moves are computed from boxes of its inputs."""
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
    """The module of array functions: numpy, or jax.numpy inside a jax computation."""
    return array.__array_namespace__()


def count_of(move: Move, shapes: Shapes, wanted: int) -> Shapes:
    """Check the number of arrays that a move takes."""
    if len(shapes) != wanted:
        raise WeightsMismatch(f"{move} takes {wanted} array{'s' if wanted > 1 else ''}, got {len(shapes)}")
    return shapes


def gives_of(move: Move, shapes: Shapes, wanted: int) -> Shapes:
    """Check the number of arrays that a move returns."""
    if len(shapes) != wanted:
        raise WeightsMismatch(f"{move} must return {wanted} array{'s' if wanted > 1 else ''}, not {len(shapes)}")
    return shapes


def equal_shape(move: Move, shapes: Shapes, count: int) -> Shape:
    """Check the number of arrays, and that their shapes are equal; return the shape."""
    count_of(move, shapes, count)
    if len(set(shapes)) != 1:
        raise WeightsMismatch(f"{move} takes arrays of equal shape, got {shapes}")
    return shapes[0]


def same_dtype(move: Move, arrays: Arrays) -> Arrays:
    """Check that the arrays have one dtype."""
    # Concatenating float32 with float64 would silently change the dtype of one of them.
    if len({array.dtype for array in arrays}) != 1:
        raise WeightsMismatch(f"{move} takes arrays of one dtype, got {', '.join(str(a.dtype) for a in arrays)}")
    return arrays


def sizes_of(sizes: tuple[int, ...], what: str) -> None:
    """Check that sizes are 0 or more."""
    if any(size < 0 for size in sizes):
        raise WeightsMismatch(f"{what} needs sizes of 0 or more, got {plain(sizes)}")


def at_least_one(count: int, what: str) -> None:
    """Check that there is at least one array."""
    if count < 1:
        raise WeightsMismatch(f"{what} needs at least one array, got {count}")


def plain(numbers: tuple[int, ...]) -> str:
    """Format numbers in parentheses: ``(1, 2)``."""
    return f"({', '.join(map(str, numbers))})"
