"""An array's bytes in C order, fast and in little memory: what a permuted weight becomes when it is written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

PIECE = 2**22
"""Bytes of a piece: few enough that its memory is used again and again, and stays in the cache until it is written."""
TILE = 64
"""Rows and columns of a tile. 64 × 64 float32 are 16 kB, of the source and of the copy: both stay in the nearest cache.
A float32 matrix of 128 MB transposed so took a third of the time that numpy takes row by row."""


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The array's bytes in C order, little-endian, as files have them, piece by piece.

    An array that lies so already is one piece, without a copy; of another, about `PIECE` bytes are copied at a time,
    while the piece before is written: a piece is good until the next is asked for.
    """
    if array.flags.c_contiguous or array.ndim == 0:
        yield _bytes(array)
    elif array.ndim == 1 or array.nbytes <= PIECE:
        yield _bytes(_copy(array))
    elif array[0].nbytes >= PIECE:
        for part in array:
            yield from pieces(part)
    else:
        yield from _one_ahead(array, max(1, PIECE // array[0].nbytes))


def _one_ahead(array: np.ndarray, rows: int) -> Iterator[memoryview]:
    """Copies of some rows at a time, each made while the one before is used; the two take turns in the same memory."""
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


def in_c_order(array: np.ndarray) -> np.ndarray:
    """The array itself where it lies in C order, else a copy that does."""
    return array if array.flags.c_contiguous else _copy(array)


def _bytes(array: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


def _copy(array: np.ndarray, copy: np.ndarray | None = None) -> np.ndarray:
    """In C order, in memory of its own or in what is given.

    Where the source is close together along another axis than the last, it is copied tile by tile.
    """
    copy = np.empty(array.shape, array.dtype) if copy is None else copy
    fast = min(range(array.ndim), key=lambda axis: abs(array.strides[axis]) if array.shape[axis] > 1 else np.inf)
    if fast == array.ndim - 1 or array.shape[fast] < TILE or array.shape[-1] < TILE:
        copy[...] = array
        return copy
    sources, copies = np.moveaxis(array, fast, 0), np.moveaxis(copy, fast, 0)
    for row in range(0, sources.shape[0], TILE):
        for column in range(0, sources.shape[-1], TILE):
            tile = np.s_[row : row + TILE, ..., column : column + TILE]
            # Through a copy of its own: in the source a tile's rows may all meet in the same few lines of the cache.
            copies[tile] = sources[tile].copy(order="K")
    return copy
