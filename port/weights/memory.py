"""Memory that is used again: the system zeroes every fresh page, which takes longer than to copy a tensor into it."""

from __future__ import annotations

import mmap
import weakref

import numpy as np

from port.weights.ahead import AHEAD

SMALLEST = 2**20
"""Bytes below which numpy's own memory is as fast: the allocator keeps it."""


class Memory:
    """Gives arrays; the memory of one that nothing refers to any more becomes that of the next.

    Safe to use from several threads. What is kept is let go with the object.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array in C order, of any content. One of more than `AHEAD` bytes is not kept for another."""
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = count * dtype.itemsize
        if not SMALLEST <= nbytes <= AHEAD:
            return np.empty(shape, dtype)
        pages = self._pages(nbytes)
        # Every view of this array refers to it, for its own memory is no array's.
        whole = np.frombuffer(pages, np.uint8)
        weakref.finalize(whole, self._free.append, pages)
        return whole[:nbytes].view(dtype).reshape(shape)

    def _pages(self, nbytes: int) -> mmap.mmap:
        while self._free:
            pages = self._free.pop()
            if len(pages) >= nbytes:
                return pages
        pages = mmap.mmap(-1, nbytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        return pages
