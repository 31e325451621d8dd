"""Tensors as numpy arrays and back, bit for bit."""

from __future__ import annotations

import warnings

import numpy as np
import torch


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Copy a tensor to numpy, from any device, bit for bit.

    Dtypes that numpy lacks (bfloat16, 8-bit floats) become ml_dtypes', which jax and safetensors know too. A sparse
    tensor becomes dense.
    """
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _BY_BITS:
        import ml_dtypes

        bits = tensor.contiguous().view(_BY_BITS[name])
        return bits.numpy().copy().view(np.dtype(getattr(ml_dtypes, name)))
    return tensor.numpy().copy()


def as_torch(array: np.ndarray) -> torch.Tensor:
    """Copy a numpy array to a tensor, bit for bit."""
    name = array.dtype.name
    if name in _BY_BITS:
        bits = np.array(array, order="C").view(f"int{8 * array.dtype.itemsize}")
        return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(np.array(array))


def as_torch_view(array: np.ndarray) -> torch.Tensor:
    """View the same memory as a tensor, which must not be written to if the array is read-only."""
    name = array.dtype.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for read-only arrays: torch has no read-only tensors
        if name in _BY_BITS:
            return torch.from_numpy(array.view(f"int{8 * array.dtype.itemsize}")).view(getattr(torch, name))
        return torch.from_numpy(array)


_BY_BITS = {"bfloat16": torch.int16} | dict.fromkeys(
    ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), torch.int8
)
"""Dtypes that numpy lacks: they are converted as integers with the same bits."""


def numpy_dtype(dtype: torch.dtype | np.dtype) -> np.dtype:
    """Return numpy's (or ml_dtypes') dtype for a torch dtype."""
    name = str(dtype).removeprefix("torch.")
    if name in _BY_BITS:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)
