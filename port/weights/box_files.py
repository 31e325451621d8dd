"""A part of an array that lies in a mapped file, copied into memory of its own; the file's pages are let go."""

from __future__ import annotations

import mmap
from math import prod

import numpy as np

from port.moves import Box
from port.moves.boxes import cut

ALIGNED = 64
"""Bytes: from such a boundary XLA's CPU takes an array as it is, and copies it from any other."""
_PAGES = mmap.ALLOCATIONGRANULARITY


def copied_box(mapped: mmap.mmap, array: np.ndarray, box: Box, begin: int) -> np.ndarray:
    """A part of an array over a mapped file.

    Args:
        mapped: the file.
        array: over it.
        box: of the array.
        begin: the byte of the file where the array begins.
    """
    copy = copied(cut(array, box))
    # The pages stay in the system's cache, and are this process's no more.
    first = begin - begin % _PAGES
    if hasattr(mmap, "MADV_DONTNEED") and array.nbytes:
        mapped.madvise(mmap.MADV_DONTNEED, first, begin + array.nbytes - first)
    return copy


def copied(array: np.ndarray) -> np.ndarray:
    """A copy in C order, on a boundary of `ALIGNED` bytes."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array in C order of any content, on a boundary of `ALIGNED` bytes."""
    nbytes = prod(shape) * dtype.itemsize
    memory = np.empty(nbytes + ALIGNED, np.uint8)
    begin = -memory.ctypes.data % ALIGNED
    return memory[begin : begin + nbytes].view(dtype).reshape(shape)
