"""Moves that pad an axis and remove the padding: a vocabulary of 50257 tokens in a table of 50304 rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Box, along, cut, whole
from port.moves.move import Shape, namespace
from port.moves.single import Make, SingleMove


@dataclass(frozen=True)
class Pad(SingleMove):
    """Lengthen an axis by appending a constant value.

    Attributes:
        axis: the axis to pad.
        size: its length before.
        padded: its length after.
        value: the value of the padding.
    """

    axis: int
    size: int
    padded: int
    value: float = 0.0

    def __post_init__(self) -> None:
        _check_sizes("pad", self.size, self.padded, self.value)

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        return self._padded(array, self.padded - self.size)

    def _padded(self, array: np.ndarray, count: int) -> np.ndarray:
        shape = (*array.shape[: self.axis], count, *array.shape[self.axis + 1 :])
        if self.value and array.dtype.kind in "biu":
            raise WeightsMismatch(f"{self}: an array of {array.dtype} can be padded with 0 only, not with {self.value}")
        namespaced = namespace(array)
        return namespaced.concatenate([array, namespaced.full(shape, self.value, array.dtype)], self.axis)

    def _shape(self, shape: Shape) -> Shape:
        return _resized(self, shape, self.size, self.padded)

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        wanted = box[self.axis]
        need = range(min(wanted.start, self.size), min(wanted.stop, self.size))
        return along(box, self.axis, need), lambda array: self._padded(array, len(wanted) - len(need))

    def inverse(self) -> Unpad:
        return Unpad(self.axis, self.padded, self.size, self.value)

    def __str__(self) -> str:
        return f"pad(axis {self.axis} from {self.size} to {self.padded}{_of(self.value)})"


@dataclass(frozen=True)
class Unpad(SingleMove):
    """Remove an axis's padding, after checking that it is padding: trained values are never dropped.

    Attributes:
        axis: the padded axis.
        padded: its length before.
        size: its length after.
        value: the value of the padding, compared bit for bit.
    """

    axis: int
    padded: int
    size: int
    value: float = 0.0

    def __post_init__(self) -> None:
        _check_sizes("unpad", self.size, self.padded, self.value)

    def _array(self, array: np.ndarray) -> np.ndarray:
        self._shape(array.shape)
        return self._kept(array, self.size)

    def _kept(self, array: np.ndarray, size: int) -> np.ndarray:
        """Return the first elements along the axis, and check the others."""
        around = whole(array.shape)
        dropped = np.asarray(cut(array, along(around, self.axis, range(size, array.shape[self.axis]))))
        expected = np.broadcast_to(np.asarray(self.value).astype(dropped.dtype), dropped.shape)
        if dropped.tobytes() != expected.tobytes():
            raise WeightsMismatch(
                f"{self}: the elements to drop are not padding: they hold {_strange(dropped, expected)}, and not only "
                f"{self.value:g}, bit for bit. They were trained, or never were padding: keep the axis at its length, "
                "or set the padding first"
            )
        return cut(array, along(around, self.axis, range(size)))

    def _shape(self, shape: Shape) -> Shape:
        return _resized(self, shape, self.padded, self.size)

    def _box(self, shape: Shape, box: Box) -> tuple[Box, Make]:
        wanted = box[self.axis]
        # The box with the last element checks the padding after it: all boxes together check all of it, once.
        stop = self.padded if wanted.stop == self.size else wanted.stop
        return along(box, self.axis, range(wanted.start, stop)), lambda array: self._kept(array, len(wanted))

    def inverse(self) -> Pad:
        return Pad(self.axis, self.size, self.padded, self.value)

    def __str__(self) -> str:
        return f"unpad(axis {self.axis} from {self.padded} to {self.size}{_of(self.value)})"


def _check_sizes(what: str, size: int, padded: int, value: float) -> None:
    if not 0 <= size <= padded:
        raise WeightsMismatch(f"{what}: the padded axis must not be shorter than the other, got {padded} for {size}")
    if isnan(value):  # equal to nothing, and with many bit patterns
        raise WeightsMismatch(f"{what}: the padding must be a number, not NaN")


def _resized(move: Pad | Unpad, shape: Shape, before: int, after: int) -> Shape:
    if not 0 <= move.axis < len(shape) or shape[move.axis] != before:
        raise WeightsMismatch(f"{move} needs {before} elements along axis {move.axis}, got shape {shape}")
    return (*shape[: move.axis], after, *shape[move.axis + 1 :])


def _strange(dropped: np.ndarray, expected: np.ndarray) -> object:
    """The first value that is not the expected one; −0 is not 0."""
    size = dropped.dtype.itemsize
    bits = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size) for array in (dropped, expected))
    found, wanted = bits
    return dropped.reshape(-1)[int((found != wanted).any(axis=1).argmax())]


def _of(value: float) -> str:
    return f" with {value:g}" if value else ""
