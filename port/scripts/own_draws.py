"""Separate generators for a loader: its order and transforms draw from them, apart from the rest of the program.

A script shuffles with the same generator that draws its weights and dropout, so a different program gets a different
order. Here each pass over a loader begins with generators seeded by the number of updates made before it: both sides
of a comparison then get the same batches, and so does a run resumed from a checkpoint.
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
"""Added to the number of updates, to give seeds that a script is unlikely to use itself."""
UPDATE_SEED = 2_000_003
"""Added to the update's number, for what a loop draws itself."""
BATCH_SEED = 3_000_003
"""Added to the batch's number, for a batch that a loop over steps draws itself."""
DROPOUT_SEED = 0
"""Seed of both sides' dropout keys; the update's number is folded in."""
EVALUATION_SEED = 1
"""Seed of the keys for models that also draw in evaluation; the number of updates and of the batch are folded in."""


class OwnDraws:
    """The generators of one pass over a loader; calling the object gives a context that installs them.

    Args:
        loader: a DataLoader, which may hold its own generators.
        step: the number of updates made before the pass.
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
        """Within this context, all draws come from these generators."""
        before = [get() for get, _ in self._homes]
        self._put(self._states)
        try:
            yield
        finally:
            self._states = [get() for get, _ in self._homes]
            self._put(before)

    def begin(self) -> None:
        """Install these generators and leave them in place: for what a loop draws until its next update."""
        self._put(self._states)

    def _put(self, states: list[Any]) -> None:
        for (_, put), state in zip(self._homes, states, strict=True):
            put(state)


class SeenDraws:
    """Records the states of a program's generators, so that its draws can be repeated."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, tuple[Any, ...]]] = []

    def see(self, number: int) -> None:
        """Keep the current states, after ``number`` calls, if they have changed."""
        arrays: Any = np.random.get_state()  # noqa: NPY002
        states = (bytes(torch.get_rng_state().numpy()), random.getstate(), bytes(arrays[1]), arrays[2])
        if not self._seen or self._seen[-1][1][:-1] != states:
            self._seen.append((number, (*states, arrays)))

    def before(self, number: int) -> Iterator[Callable[[], None]]:
        """Functions that restore each state recorded before a call, the latest first."""
        for at, state in reversed(self._seen):
            if at < number:
                yield partial(_put_back, state)


def _put_back(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state[0]), dtype=torch.uint8))
    random.setstate(state[1])
    np.random.set_state(state[-1])  # noqa: NPY002


def draws_of_update(step: int) -> OwnDraws:
    """The generators for what a loop draws itself in update ``step``."""
    return OwnDraws(None, step, first=UPDATE_SEED)


def draws_of_batch(number: int) -> OwnDraws:
    """The generators for the batch ``number`` that a loop over steps draws itself."""
    return OwnDraws(None, number, first=BATCH_SEED)


def _generators_of(loader: Any) -> list[torch.Generator]:
    """The generators that a loader and its samplers hold, each once."""
    holders = [loader, *(getattr(loader, name, None) for name in ("sampler", "batch_sampler"))]
    found = [getattr(one, "generator", None) for one in holders]
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
