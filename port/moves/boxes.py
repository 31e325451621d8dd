"""Boxes of arrays, and what of its sources a move needs to give one: so a device's shard is read alone from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from port.errors import WeightsMismatch

Box = tuple[range, ...]
"""A part of an array: along each axis the indices that belong to it, one after the other."""
Boxes = tuple[Box | None, ...]
"""A box of each of several arrays; None: nothing of that one."""


@dataclass(frozen=True)
class Restriction:
    """How boxes of a move's results are made of boxes of its sources.

    Attributes:
        needs: the box of each source that has to be there; None: nothing of it.
        make: from these boxes' arrays, without those that are None, to the arrays of the boxes that were asked for.
    """

    needs: Boxes
    make: Callable[[tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]


def whole(shape: tuple[int, ...]) -> Box:
    """All of an array."""
    return tuple(map(range, shape))


def shape_of(box: Box) -> tuple[int, ...]:
    """The shape of a box."""
    return tuple(map(len, box))


def size_of(box: Box) -> int:
    """How many elements a box has."""
    return prod(map(len, box))


def cut(array: np.ndarray, box: Box) -> np.ndarray:
    """A box of an array: a view."""
    slices: list[Any] = [slice(axis.start, axis.stop) for axis in box]
    return array[(*slices, ...)]


def inside(box: Box, outer: Box) -> Box:
    """A box as counted from where another begins that holds it."""
    return tuple(moved(axis, -around.start) for axis, around in zip(box, outer, strict=True))


def moved(axis: range, by: int) -> range:
    """A range moved along."""
    return range(axis.start + by, axis.stop + by)


def along(box: Box, axis: int, indices: range) -> Box:
    """A box with other indices along one axis."""
    return (*box[:axis], indices, *box[axis + 1 :])


def hull(boxes: list[Box]) -> Box:
    """The smallest box that holds all of some boxes."""
    return tuple(
        range(min(axis.start for axis in axes), max(axis.stop for axis in axes)) for axes in zip(*boxes, strict=True)
    )


def kept(boxes: Boxes) -> list[Box]:
    """The boxes that are not None."""
    return [box for box in boxes if box is not None]


def check_boxes(boxes: Boxes, shapes: tuple[tuple[int, ...], ...]) -> None:
    """See that there is a box for each array, and within it.

    Raises:
        WeightsMismatch: which is not.
    """
    if len(boxes) != len(shapes):
        raise WeightsMismatch(f"{len(boxes)} boxes are asked for, of {len(shapes)} arrays")
    for box, shape in zip(boxes, shapes, strict=True):
        if box is None:
            continue
        fits = len(box) == len(shape) and all(
            axis.step == 1 and 0 <= axis.start <= axis.stop <= size for axis, size in zip(box, shape, strict=True)
        )
        if not fits:
            raise WeightsMismatch(f"{box} is no box of an array of shape {shape}")


def cut_from_one(boxes: Boxes) -> Restriction:
    """Boxes of one array, each cut from the smallest that holds all of them."""
    wanted = kept(boxes)
    if not wanted:
        return Restriction((None,), lambda arrays: ())
    around = hull(wanted)
    return Restriction((around,), lambda arrays: tuple(cut(arrays[0], inside(box, around)) for box in wanted))
