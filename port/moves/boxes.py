"""Boxes of arrays, and which parts of its sources a move needs for a box of its result, to read one shard alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from port.errors import WeightsMismatch

Box = tuple[range, ...]
"""A part of an array: a range of indices along each axis."""
Boxes = tuple[Box | None, ...]
"""One box for each of several arrays; None where nothing of that array is needed."""


@dataclass(frozen=True)
class Restriction:
    """How boxes of a move's results are computed from boxes of its sources.

    Attributes:
        needs: the box that is needed of each source; None for nothing.
        make: maps the arrays of these boxes, without those that are None, to the arrays of the requested boxes.
    """

    needs: Boxes
    make: Callable[[tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]


def whole(shape: tuple[int, ...]) -> Box:
    """The box that covers a whole array."""
    return tuple(map(range, shape))


def shape_of(box: Box) -> tuple[int, ...]:
    """The shape of a box."""
    return tuple(map(len, box))


def size_of(box: Box) -> int:
    """The number of elements in a box."""
    return prod(map(len, box))


def cut(array: np.ndarray, box: Box) -> np.ndarray:
    """Return a box of an array, as a view."""
    slices: list[Any] = [slice(axis.start, axis.stop) for axis in box]
    return array[(*slices, ...)]


def inside(box: Box, outer: Box) -> Box:
    """Express a box relative to the start of an outer box that contains it."""
    return tuple(moved(axis, -around.start) for axis, around in zip(box, outer, strict=True))


def moved(axis: range, by: int) -> range:
    """Shift a range."""
    return range(axis.start + by, axis.stop + by)


def along(box: Box, axis: int, indices: range) -> Box:
    """Replace a box's indices along one axis."""
    return (*box[:axis], indices, *box[axis + 1 :])


def hull(boxes: list[Box]) -> Box:
    """The smallest box that contains all of the boxes."""
    return tuple(
        range(min(axis.start for axis in axes), max(axis.stop for axis in axes)) for axes in zip(*boxes, strict=True)
    )


def kept(boxes: Boxes) -> list[Box]:
    """The boxes that are not None."""
    return [box for box in boxes if box is not None]


def check_boxes(boxes: Boxes, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Check that there is a box for each array, and that it lies inside the array.

    Raises:
        WeightsMismatch: a box is missing or out of bounds; names it.
    """
    if len(boxes) != len(shapes):
        raise WeightsMismatch(f"{len(boxes)} boxes were requested for {len(shapes)} arrays")
    for box, shape in zip(boxes, shapes, strict=True):
        if box is None:
            continue
        fits = len(box) == len(shape) and all(
            axis.step == 1 and 0 <= axis.start <= axis.stop <= size for axis, size in zip(box, shape, strict=True)
        )
        if not fits:
            raise WeightsMismatch(f"the box {box} does not fit an array of shape {shape}")


def cut_from_one(boxes: Boxes) -> Restriction:
    """Boxes of one array, each cut from the smallest box that contains all of them."""
    wanted = kept(boxes)
    if not wanted:
        return Restriction((None,), lambda arrays: ())
    around = hull(wanted)
    return Restriction((around,), lambda arrays: tuple(cut(arrays[0], inside(box, around)) for box in wanted))
