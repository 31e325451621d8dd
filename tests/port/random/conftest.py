"""jax's arrays as tensors, and how a tensor and an array are compared: by their bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(scope="session")
def to_torch() -> Callable[[Any], Tensor]:
    return as_tensor


@pytest.fixture(scope="session")
def same() -> Callable[[Tensor, Any], bool]:
    return have_the_same_bits


def as_tensor(array: Any) -> Tensor:
    """The same bits as a tensor; NumPy has no bfloat16 that PyTorch would take."""
    array = np.array(array)
    if array.dtype == jnp.bfloat16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def have_the_same_bits(ours: Tensor, theirs: Any) -> bool:
    """Equal dtypes, shapes and bits; 0.0 and −0.0 are different here."""
    theirs = as_tensor(theirs)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    as_bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.dtype.itemsize]
    return torch.equal(ours.view(as_bits), theirs.view(as_bits))
