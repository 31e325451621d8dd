"""Memory that is reused: the system zeroes every new page, which takes longer than copying a tensor into it."""

from __future__ import annotations

import weakref

import numpy as np

from port.weights.ahead import AHEAD

SMALLEST = 2**20
"""Bytes below which numpy's own memory is as fast: its allocator keeps it."""


class Memory:
    """Allocates arrays; the memory of one that nothing refers to any more is reused for the next.

    Thread-safe. The kept memory is released with the object.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialized array in C order. More than `AHEAD` bytes are not kept for reuse."""
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
