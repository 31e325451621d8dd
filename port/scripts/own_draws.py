"""Generators of a loader's own: its order and its transforms are drawn apart from all else that a program draws.

A script shuffles by the generator from which it also draws weights and dropout, so that another program has another
order. Each pass over a loader begins here with generators that are seeded by how many updates were made before it:
both sides of a comparison then have the same batches, and a run that goes on from a checkpoint has them too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

SEED = 1_000_003
"""Added to the number of updates: seeds that a script hardly uses itself."""
UPDATE_SEED = 2_000_003
"""Added to the update's number, of what a loop draws itself."""
BATCH_SEED = 3_000_003
"""Added to the number of a batch that a loop over steps draws itself."""
DROPOUT_SEED = 0
"""Of the keys of both sides' dropout, into which the number of the update is folded."""
EVALUATION_SEED = 1
"""Of the keys of what a model draws in evaluation too: folded in are the updates before it, and the batch's number."""


class OwnDraws:
    """The generators of one pass over a loader; called, they stand in the program's place within a context.

    Args:
        loader: a DataLoader, which may have generators of its own.
        step: how many updates were made before the pass.
        first: the seed before any update.
    """

    def __init__(self, loader: Any, step: int, *, first: int = SEED) -> None:
        seed = first + step
        self._homes: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
            (torch.get_rng_state, torch.set_rng_state),
            (random.getstate, random.setstate),
            (np.random.get_state, np.random.set_state),
        ]
        self._states: list[Any] = [
            torch.Generator().manual_seed(seed).get_state(),
            random.Random(seed).getstate(),
            np.random.RandomState(seed).get_state(),
        ]
        for one in _generators_of(loader):
            self._homes.append((one.get_state, one.set_state))
            self._states.append(torch.Generator(one.device).manual_seed(seed).get_state())

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Within it, what is drawn is drawn by these."""
        before = [get() for get, _ in self._homes]
        self._put(self._states)
        try:
            yield
        finally:
            self._states = [get() for get, _ in self._homes]
            self._put(before)

    def begin(self) -> None:
        """Put them in the program's place, and leave them there: for what a loop draws until its next update."""
        self._put(self._states)

    def _put(self, states: list[Any]) -> None:
        for (_, put), state in zip(self._homes, states, strict=True):
            put(state)


class SeenDraws:
    """The states that a program's generators have had; what it drew can be drawn again."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, tuple[Any, ...]]] = []

    def see(self, number: int) -> None:
        """Keep the states that they have now, behind so many calls, if they are others than before."""
        arrays: Any = np.random.get_state()  # noqa: NPY002
        states = (bytes(torch.get_rng_state().numpy()), random.getstate(), bytes(arrays[1]), arrays[2])
        if not self._seen or self._seen[-1][1][:-1] != states:
            self._seen.append((number, (*states, arrays)))

    def before(self, number: int) -> Iterator[Callable[[], None]]:
        """What puts each of the states in the program's place that they had before a call, the last one first."""
        for at, state in reversed(self._seen):
            if at < number:
                yield partial(_put_back, state)


def _put_back(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state[0]), dtype=torch.uint8))
    random.setstate(state[1])
    np.random.set_state(state[-1])  # noqa: NPY002


def draws_of_update(step: int) -> OwnDraws:
    """The generators of what a loop draws itself in an update, by the number of that."""
    return OwnDraws(None, step, first=UPDATE_SEED)


def draws_of_batch(number: int) -> OwnDraws:
    """The generators of a batch that a loop over steps draws itself, by the number of that."""
    return OwnDraws(None, number, first=BATCH_SEED)


def _generators_of(loader: Any) -> list[torch.Generator]:
    """Those that a loader and its samplers hold, each once."""
    holders = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler"))]
    found = [getattr(one, "generator", None) for one in holders]
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
