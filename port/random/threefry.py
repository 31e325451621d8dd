"""Threefry-2x32: keys, and the random bits of a key, with the names and results of ``jax.random``.

The hash: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. The formulas are those of
jax's ``jax/_src/random/threefry2x32.py`` and ``prng.py`` with ``jax_threefry_partitionable=True``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from port.errors import UsageError

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_LOW_32 = 0xFFFFFFFF


def _threefry2x32(key: Tensor, counter: Tensor) -> tuple[Tensor, Tensor]:
    """The hash of each int32 in ``counter``, any shape, as two int32 tensors of that shape.

    int32 is used for uint32, for which PyTorch has no addition and shifts; it wraps around to the same bits.
    """
    if key.dtype != torch.uint32 or key.shape != (2,):
        raise UsageError(
            f"a key has shape (2,) and dtype torch.uint32, but got {tuple(key.shape)} and {key.dtype}; "
            "make it with key, fold_in or split, and use torch.vmap over several"
        )
    first, second = key.view(torch.int32).unbind()
    schedule = (first, second, first ^ second ^ _PARITY)

    x, y = first + torch.zeros_like(counter), second + counter
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            x += y
            # >> copies an int32's sign bit: the mask keeps only the bits that wrap around.
            around = (y >> (32 - distance)).bitwise_and_((1 << distance) - 1)
            y <<= distance
            y |= around
            y ^= x
        x += schedule[(block + 1) % 3]
        y += schedule[(block + 2) % 3] + (block + 1)
    return x, y


def _hash_of_positions(key: Tensor, shape: Sequence[int], rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Two int32 for each element: the hash of its row-major position. With ``rows``, (n,), only for these rows."""
    size = math.prod(shape)
    if size >= 2**31:
        raise UsageError(f"one draw has fewer than 2**31 elements, but {tuple(shape)} has {size}; split the key")
    if rows is None:
        return _threefry2x32(key, torch.arange(size, dtype=torch.int32, device=key.device).reshape(shape))
    length = math.prod(shape[1:])  # of a row
    starts = rows.to(key.device, torch.int32).unsqueeze(1) * length
    positions = starts + torch.arange(length, dtype=torch.int32, device=key.device)
    return _threefry2x32(key, positions.reshape(len(rows), *shape[1:]))


def key(seed: int, *, x64: bool = False, device: torch.device | str | None = None) -> Tensor:
    """``jax.random.key_data(jax.random.key(seed))``: shape (2,), uint32.

    ``seed`` is any int from −2**63 to 2**63 − 1; with ``x64`` disabled only its lowest 32 bits count, as in jax.
    """
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise UsageError(f"a seed is an int from -2**63 to 2**63 - 1, but got {seed!r}; pass one of those")
    words = [(seed >> 32) & _LOW_32 if x64 else 0, seed & _LOW_32]
    return torch.tensor(words, dtype=torch.uint32, device=device)


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """``jax.random.fold_in``: derive a key, shape (2,), uint32, from a key and a number such as a step.

    ``data`` is an int from 0 to 2**32 − 1, or an integer tensor of shape (), whose lowest 32 bits count.
    """
    one_integer = isinstance(data, Tensor) and data.shape == () and not (data.is_floating_point() or data.is_complex())
    if not one_integer and not (isinstance(data, int) and 0 <= data < 2**32):
        raise UsageError(f"fold_in takes one int from 0 to 2**32 - 1, but got {data!r}; use torch.vmap over several")
    counter = torch.as_tensor(data, device=key.device).to(torch.int64).to(torch.int32)
    return torch.stack(_threefry2x32(key, counter)).view(torch.uint32)


def split(key: Tensor, num: int | tuple[int, ...] = 2) -> Tensor:
    """``jax.random.split``: ``num`` new keys, shape (num, 2) or (*num, 2), uint32."""
    shape = num if isinstance(num, tuple) else (num,)
    return torch.stack(_hash_of_positions(key, shape), dim=-1).view(torch.uint32)


def bits(key: Tensor, shape: Sequence[int] = (), dtype: torch.dtype | None = None, *, x64: bool = False) -> Tensor:
    """``jax.random.bits``: draw unsigned integers.

    ``dtype`` is uint8, uint16, uint32 or uint64; the default is uint32, or uint64 under ``x64``. An explicit dtype
    decides alone: uint64 is what jax draws with x64 enabled.
    """
    dtype = dtype or (torch.uint64 if x64 else torch.uint32)
    signed = {torch.uint8: torch.int8, torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    if dtype not in signed:
        raise UsageError(f"bits are torch.uint8, uint16, uint32 or uint64, but dtype is {dtype}; choose one")
    return signed_bits(key, shape, 8 * dtype.itemsize).to(signed[dtype]).view(dtype)


def signed_bits(key: Tensor, shape: Sequence[int], width: int, rows: Tensor | None = None) -> Tensor:
    """Random bits: 64 in an int64, or the lowest ``width`` of an int32; with ``rows``, (n,), only for these rows."""
    x, y = _hash_of_positions(key, shape, rows)
    return (x.to(torch.int64) << 32) | (y.to(torch.int64) & _LOW_32) if width == 64 else x ^ y
