"""Converts arrays to bytes in C order, fast and in little memory, as when a permuted weight is written."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product, repeat
from typing import IO

import numpy as np

from port.weights.memory import Memory

PIECE = 2**22
"""Bytes of a piece: few enough that its memory is reused, and stays in the cache until it is written and its checksum
is computed."""
TILE = 240
"""Rows and columns of a tile. 240 × 240 float32 are 230 kB, which fit into the second-level cache. Not 256: rows of a
power of two bytes would all map to the same few cache lines. A matrix takes a third less time than in tiles of 64 × 64,
and one of bfloat16 half."""


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """Yield the array's bytes in C order, little-endian, as in files, piece by piece.

    An array in this order is not copied; of another, about `PIECE` bytes are copied at a time, while the piece
    before is written: a piece is valid until the next is requested.
    """
    if array.flags.c_contiguous or array.ndim == 0:
        whole = _bytes(array)
        for begin in range(0, len(whole), PIECE):
            yield whole[begin : begin + PIECE]
    elif array.ndim == 1 or array.nbytes <= PIECE:
        yield _bytes(_copy(array))
    elif array[0].nbytes >= PIECE:
        for part in array:
            yield from pieces(part)
    else:
        yield from _one_ahead(array, max(1, PIECE // array[0].nbytes))


def _one_ahead(array: np.ndarray, rows: int) -> Iterator[memoryview]:
    """Copy some rows at a time, each while the one before is used; the two alternate in the same memory."""
    copies = [np.empty((rows, *array.shape[1:]), array.dtype) for _ in range(2)]
    with ThreadPoolExecutor(1) as thread:
        coming = None
        for number, begin in enumerate(range(0, len(array), rows)):
            part = array[begin : begin + rows]
            made, coming = coming, thread.submit(_copy, part, copies[number % 2][: len(part)])
            if made is not None:
                yield _bytes(made.result())
        if coming is not None:
            yield _bytes(coming.result())


def write_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write the array's bytes in C order to a file, without keeping them."""
    for piece in pieces(array):
        file.write(piece)


def in_c_order(array: np.ndarray, memory: Memory) -> np.ndarray:
    """Return the array itself if it is in C order, else a copy that is."""
    return array if array.flags.c_contiguous else _copy(array, memory.empty(array.shape, array.dtype))


def all_in_c_order(arrays: Sequence[np.ndarray], memory: Memory) -> list[np.ndarray]:
    """As `in_c_order`, several arrays at a time: numpy copies without holding the interpreter's lock."""
    if all(array.flags.c_contiguous for array in arrays):
        return list(arrays)
    with ThreadPoolExecutor(min(len(arrays), os.cpu_count() or 1)) as threads:
        return list(threads.map(in_c_order, arrays, repeat(memory)))


def _bytes(array: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


def _copy(array: np.ndarray, copy: np.ndarray | None = None) -> np.ndarray:
    """Copy in C order, into new memory or into ``into``.

    If the source is contiguous along another axis than the last, it is copied tile by tile.
    """
    copy = np.empty(array.shape, array.dtype) if copy is None else copy
    source, target = _as_integers(array), _as_integers(copy)
    steps = [abs(stride) if size > 1 else np.inf for size, stride in zip(array.shape, array.strides, strict=True)]
    nearness = sorted(range(array.ndim), key=lambda axis: -steps[axis])
    if nearness[-1] == array.ndim - 1 or array.size <= TILE**2:
        target[...] = source
        return copy
    sizes = _tile(array.shape, nearness)
    scratch = np.empty(math.prod(sizes), source.dtype)
    back = np.argsort(nearness)
    for begin in product(*(range(0, whole, size) for whole, size in zip(array.shape, sizes, strict=True))):
        tile = tuple(slice(first, first + size) for first, size in zip(begin, sizes, strict=True))
        part = source[tile].transpose(nearness)
        # Through a separate copy: in the source a tile's rows may all map to the same few cache lines.
        near = scratch[: part.size].reshape(part.shape)
        near[...] = part
        target[tile] = near.transpose(back)
    return copy


def _tile(shape: tuple[int, ...], nearness: Sequence[int]) -> list[int]:
    """A tile's sizes: about `TILE` elements that are contiguous in the copy, and as many in the source.

    Args:
        shape: the array's shape.
        nearness: its axes; the one with the source's smallest stride is last.
    """
    sizes = [1] * len(shape)
    for axes in (range(len(shape)), nearness):
        room = TILE
        for axis in reversed(axes):
            sizes[axis] = max(sizes[axis], min(shape[axis], room))
            room //= shape[axis]
            if not room:
                break
    return sizes


def _as_integers(array: np.ndarray) -> np.ndarray:
    """Reinterpret the bytes as a numpy dtype: ml_dtypes' are copied at half the speed."""
    size = array.dtype.itemsize
    return array.view(f"u{size}") if size in (1, 2, 4, 8) else array
