"""Tensors as they come, for the tests of what is written."""

from __future__ import annotations

import numpy as np

from port.weights.checkpoint import Tensor
from port.weights.tensors import dtypes

RANDOM = np.random.default_rng(0)


def tensors_of(arrays: dict[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]


def some(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bits of any kind."""
    dtype = dtypes()[name]
    size = int(np.prod(shape)) * dtype.itemsize
    return RANDOM.integers(0, 2 if name == "bool" else 256, size, np.uint8).view(dtype).reshape(shape)
