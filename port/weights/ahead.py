"""Makes tensors one ahead: the next is read and moved while one is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from port.weights.tensors import Tensor

AHEAD = 2**27
"""The most bytes to read ahead. What was read and what is made of it, twice this in all, fit beside the tensor
that is being written into twice the largest tensor and 200 MB."""


@contextmanager
def made_ahead(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Wrap tensors that are read in order: whenever one is read, a thread begins to make the next.

    A single thread makes them all, one after the other. A tensor that needs more than `AHEAD` bytes is made only when
    it is read: the one before it may be out of memory by then.
    """
    with ThreadPoolExecutor(1) as thread:
        coming: dict[int, Future[np.ndarray]] = {}

        def read(place: int) -> np.ndarray:
            future = coming.pop(place, None) or thread.submit(tensors[place].array)
            array = future.result()
            if place + 1 < len(tensors) and tensors[place + 1].needs <= AHEAD:
                coming[place + 1] = thread.submit(tensors[place + 1].array)
            return array

        yield [replace(tensor, read=partial(read, place)) for place, tensor in enumerate(tensors)]
