"""What an opened checkpoint promises, on one that is made by hand."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from port.errors import BrokenWeights, UsageError
from port.weights.tensors import Checkpoint, Tensor, TensorInfo, dtypes

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def checkpoint() -> Checkpoint:
    return Checkpoint(Path("w.x"), "safetensors", {"a.weight": TensorInfo((2, 3), ARRAY.dtype)}, lambda name: ARRAY)


def test_reading() -> None:
    with checkpoint() as opened:
        assert opened.read("a.weight") is ARRAY
        with pytest.raises(UsageError, match=r"w\.x has no tensor 'a\.wieght' among its 1; near: a\.weight"):
            opened.read("a.wieght")
        with pytest.raises(UsageError, match=r"has no tensor 'z' among its 1$"):
            opened.read("z")
    with pytest.raises(UsageError, match=r"w\.x is closed: read a\.weight before that"):
        opened.read("a.weight")


def test_sizes_in_bytes() -> None:
    assert TensorInfo((2, 3), np.dtype(np.float64)).nbytes == 48
    assert Tensor("a", (), np.dtype(ml_dtypes.bfloat16), lambda: ARRAY).nbytes == 2


def test_a_tensor_keeps_its_promise() -> None:
    assert Tensor("a", (2, 3), ARRAY.dtype, lambda: ARRAY).array() is ARRAY
    for shape, dtype in (((3, 2), np.float32), ((2, 3), np.float64), ((6,), np.float32)):
        with pytest.raises(BrokenWeights, match=r"a was declared as .* read as float32 of shape \(2, 3\)"):
            Tensor("a", shape, np.dtype(dtype), lambda: ARRAY).array()


def test_dtypes_are_numbers_only() -> None:
    assert all(
        np.zeros(1, dtype).astype(np.float64 if dtype.kind != "c" else dtype) is not None for dtype in dtypes().values()
    )
    assert not any(dtype.hasobject for dtype in dtypes().values())
    assert {"object", "str", "V8", "O", "float128"}.isdisjoint(dtypes())
    assert all(dtype.name == name for name, dtype in dtypes().items())
