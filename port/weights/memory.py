"""Memory that is used again: the system zeroes every fresh page, which takes longer than to copy a tensor into it."""

from __future__ import annotations

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
        self._free: list[np.ndarray] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array in C order, of any content. One of more than `AHEAD` bytes is not kept for another."""
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = count * dtype.itemsize
        if not SMALLEST <= nbytes <= AHEAD:
            return np.empty(shape, dtype)
        owner = self._owner(nbytes)
        # Every view refers to this array, and not to the owner behind it: numpy sees no array behind a memoryview.
        whole = np.frombuffer(owner.data, np.uint8)
        weakref.finalize(whole, self._free.append, owner)
        return whole[:nbytes].view(dtype).reshape(shape)

    def _owner(self, nbytes: int) -> np.ndarray:
        while self._free:
            owner = self._free.pop()
            if owner.nbytes >= nbytes:
                return owner
        return np.empty(nbytes, np.uint8)
