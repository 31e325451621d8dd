"""Moves that treat each array separately: permute, reshape, fold, flip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Box, Boxes, Restriction, check_boxes
from port.moves.move import Arrays, Shape, Shapes, namespace, plain, restriction_of, sizes_of
from port.moves.reshaped_box import reshaped_box

Make = Callable[[np.ndarray], np.ndarray]


class SingleMove:
    """A move that treats each array separately."""

    def __call__(self, arrays: Arrays) -> Arrays:
        return tuple(self._array(array) for array in arrays)

    def shapes(self, shapes: Shapes) -> Shapes:
        return tuple(self._shape(shape) for shape in shapes)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        needs: list[Box | None] = []
        makes: list[Make] = []
        for shape, box in zip(shapes, wanted, strict=True):
            if box is None:
                needs.append(None)
                continue
            need, make = self._box(shape, box)
            needs.append(need)
            makes.append(make)
        return Restriction(tuple(needs), lambda arrays: tuple(make(a) for make, a in zip(makes, arrays, strict=True)))

    def _array(self, array: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _shape(self, shape: Shape) -> Shape:
        raise NotImplementedError

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        """The box of an array that contains a box of the result, and the function that extracts it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Permute(SingleMove):
    """Reorder the axes: axis i of the result is axis ``axes[i]`` of the array, as in `numpy.transpose`."""

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            raise WeightsMismatch(f"permute needs each axis from 0 on exactly once, got {self.axes}")

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        return array.transpose(self.axes)

    def _shape(self, shape: Shape) -> Shape:
        if len(shape) != len(self.axes):
            raise WeightsMismatch(f"{self} needs an array of {len(self.axes)} axes, got shape {shape}")
        return tuple(shape[axis] for axis in self.axes)

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        return tuple(box[place] for place in self.inverse().axes), self._array

    def inverse(self) -> Permute:
        return Permute(tuple(int(axis) for axis in np.argsort(self.axes)))

    def __str__(self) -> str:
        return f"permute{plain(self.axes)}"


@dataclass(frozen=True)
class Reshape(SingleMove):
    """The same elements in the same order, from one shape to another."""

    before: Shape
    after: Shape

    def __post_init__(self) -> None:
        sizes_of(self.before, "reshape")
        sizes_of(self.after, "reshape")
        if prod(self.before) != prod(self.after):
            raise WeightsMismatch(f"reshape cannot turn {self.before} into {self.after}: their sizes differ")

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        return array.reshape(self.after)

    def _shape(self, shape: Shape) -> Shape:
        if shape != self.before:
            raise WeightsMismatch(f"{self} needs shape {self.before}, got {shape}")
        return self.after

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        return reshaped_box(self.before, self.after, box)

    def inverse(self) -> Reshape:
        return Reshape(self.after, self.before)

    def __str__(self) -> str:
        return f"reshape{plain(self.before)}→{plain(self.after)}"


@dataclass(frozen=True)
class Fold(SingleMove):
    """Reorder the parts of an axis that was made by a flatten.

    The axis is unflattened to ``shape``, its parts are reordered as in `Permute`, and it is flattened again. A linear
    layer after a flatten of (C, H, W) features becomes one after a flatten of (H, W, C) features by
    ``Fold(axis, (C, H, W), (1, 2, 0))``, where ``axis`` is the axis of its inputs.
    """

    axis: int
    shape: Shape
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes_of(self.shape, "fold")
        if sorted(self.order) != list(range(len(self.shape))):
            raise WeightsMismatch(f"fold of {len(self.shape)} parts orders each exactly once from 0, got {self.order}")

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        arrays: Arrays = (array,)
        for step in self._steps(array.shape):
            arrays = step(arrays)
        return arrays[0]

    def _steps(self, shape: Shape) -> tuple[Reshape, Permute, Reshape]:
        """Unflatten the axis, reorder its parts, and flatten it again."""
        parts = (*shape[: self.axis], *self.shape, *shape[self.axis + 1 :])
        order = [self.axis + part for part in self.order]
        reordered = Permute((*range(self.axis), *order, *range(self.axis + len(order), len(parts))))
        return Reshape(shape, parts), reordered, Reshape(reordered.shapes((parts,))[0], shape)

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        part = restriction_of(self._steps(shape), (shape,), (box,))
        (need,) = part.needs
        assert need is not None
        return need, lambda array: part.make((array,))[0]

    def _shape(self, shape: Shape) -> Shape:
        if not 0 <= self.axis < len(shape) or shape[self.axis] != prod(self.shape):
            raise WeightsMismatch(f"{self} needs {prod(self.shape)} elements along axis {self.axis}, got shape {shape}")
        return shape

    def inverse(self) -> Fold:
        shape = tuple(self.shape[part] for part in self.order)
        return Fold(self.axis, shape, tuple(int(part) for part in np.argsort(self.order)))

    def __str__(self) -> str:
        return f"fold(axis {self.axis}: {plain(self.shape)} in order {plain(self.order)})"


@dataclass(frozen=True)
class Flip(SingleMove):
    """Reverse the elements along some axes."""

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(set(self.axes)) != len(self.axes):
            raise WeightsMismatch(f"flip takes each axis at most once, got {plain(self.axes)}")

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        return namespace(array).flip(array, self.axes)

    def _shape(self, shape: Shape) -> Shape:
        if any(not 0 <= axis < len(shape) for axis in self.axes):
            raise WeightsMismatch(f"{self} needs these axes, got shape {shape}")
        return shape

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        need = tuple(
            range(size - indices.stop, size - indices.start) if axis in self.axes else indices
            for axis, (size, indices) in enumerate(zip(shape, box, strict=True))
        )
        return need, self._array

    def inverse(self) -> Flip:
        return self

    def __str__(self) -> str:
        return f"flip{plain(self.axes)}"
