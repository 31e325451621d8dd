"""Memory that is used again, and only when nothing refers to it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from port.weights.ahead import AHEAD
from port.weights.memory import SMALLEST, Memory

SHAPE = (512, 1024)
FLOAT = np.dtype(np.float32)


def begin(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_what_nothing_refers_to_is_used_again() -> None:
    """For a smaller array of another dtype, too; never for a larger one."""
    memory = Memory()
    first = memory.empty(SHAPE, FLOAT)
    assert (first.shape, first.dtype, first.flags.c_contiguous, first.flags.writeable) == (SHAPE, FLOAT, True, True)
    place = begin(first)
    del first
    smaller = memory.empty((3, SMALLEST // 4), np.dtype(ml_dtypes.bfloat16))
    assert begin(smaller) == place
    smaller[...] = 3
    assert (smaller == 3).all()
    del smaller
    larger = memory.empty((SHAPE[0] + 512, SHAPE[1]), FLOAT)
    larger[...] = 5
    assert larger.sum() == 5 * larger.size


@pytest.mark.parametrize(
    "refer",
    [
        lambda array: array[3:7].T,
        lambda array: array.view(np.uint8).reshape(-1)[5:6],
        lambda array: memoryview(array),
        lambda array: array.reshape(-1).view(np.uint8).data[8:],
        lambda array: torch.from_numpy(array)[1:],
        lambda array: np.broadcast_to(array[:1], (9, SHAPE[1])),
    ],
    ids=["view", "view of a view", "memoryview", "memoryview of a view", "torch", "broadcast"],
)
def test_what_anything_refers_to_is_left_alone(refer: Callable[[np.ndarray], Any]) -> None:
    memory = Memory()
    array = memory.empty(SHAPE, FLOAT)
    array[...] = 7
    place, held = begin(array), refer(array)
    del array
    other = memory.empty(SHAPE, FLOAT)
    other[...] = 0
    assert begin(other) != place
    del held
    assert begin(memory.empty(SHAPE, FLOAT)) == place


@pytest.mark.parametrize("nbytes", [0, 8, SMALLEST - 4, AHEAD + 4])
def test_what_is_small_or_large_is_numpys(nbytes: int) -> None:
    array = Memory().empty((nbytes // 4,), FLOAT)
    assert (array.nbytes, array.base) == (nbytes, None)
