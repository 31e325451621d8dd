"""The moves of a mapping: invertible operations on one array, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from port.errors import WeightsMismatch


class Move(Protocol):
    """An invertible array operation."""

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The array after the move."""
        ...

    def inverse(self) -> Move:
        """The move that undoes this one."""
        ...


@dataclass(frozen=True)
class Permute:
    """Reorder the axes: axis i of the result is axis ``axes[i]`` of the array, as in `numpy.transpose`."""

    axes: tuple[int, ...]

    def __call__(self, array: np.ndarray) -> np.ndarray:
        if array.ndim != len(self.axes):
            raise WeightsMismatch(f"{self} needs an array of {len(self.axes)} axes, got shape {array.shape}")
        return array.transpose(self.axes)

    def inverse(self) -> Permute:
        return Permute(tuple(int(axis) for axis in np.argsort(self.axes)))

    def __str__(self) -> str:
        return f"permute{self.axes}"
