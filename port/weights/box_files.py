"""Copies a part of an array in a mapped file into separate memory, and releases the file's pages."""

from __future__ import annotations

import mmap
from math import prod

import numpy as np

from port.moves import Box
from port.moves.boxes import cut

ALIGNED = 64
"""Bytes: XLA's CPU backend uses arrays with this alignment as they are, and copies others."""
_PAGES = mmap.ALLOCATIONGRANULARITY


def copied_box(mapped: mmap.mmap, array: np.ndarray, box: Box, begin: int) -> np.ndarray:
    """Copy a part of an array in a mapped file.

    Args:
        mapped: the file.
        array: the array over it.
        box: the part.
        begin: the array's offset in the file, in bytes.
    """
    copy = copied(cut(array, box))
    # The pages stay in the system's cache, but no longer belong to this process.
    first = begin - begin % _PAGES
    if hasattr(mmap, "MADV_DONTNEED") and array.nbytes:
        mapped.madvise(mmap.MADV_DONTNEED, first, begin + array.nbytes - first)
    return copy


def copied(array: np.ndarray) -> np.ndarray:
    """Copy in C order, aligned to `ALIGNED` bytes."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialized array in C order, aligned to `ALIGNED` bytes."""
    nbytes = prod(shape) * dtype.itemsize
    memory = np.empty(nbytes + ALIGNED, np.uint8)
    begin = -memory.ctypes.data % ALIGNED
    return memory[begin : begin + nbytes].view(dtype).reshape(shape)
