"""A loader's own generators: its batches are the same whatever else is drawn, and nothing else is disturbed by them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from port.scripts.own_draws import OwnDraws, SeenDraws


class Noisy(Dataset[Any]):
    """Draws in each example, from each generator that there is."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, float(torch.rand(())), random.random(), np.random.rand()])  # noqa: NPY002


def batches(loader: DataLoader[Any], step: int, between: Callable[[], object]) -> Iterator[torch.Tensor]:
    draws = OwnDraws(loader, step)
    with draws():
        iterator = iter(loader)
    for _ in range(len(loader)):
        between()
        with draws():
            batch = next(iterator)
        yield batch


def drawn(step: int, *, between: Callable[[], object] = lambda: None, seeded: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7) if seeded else None
    loader = DataLoader(Noisy(), batch_size=2, shuffle=True, generator=generator)
    if seeded:
        next(iter(loader))  # a look before, which moves its generator
    return torch.cat(list(batches(loader, step, between)))


@pytest.mark.parametrize("seeded", [False, True])
def test_batches_are_those_of_their_pass(seeded: bool) -> None:
    first = drawn(3, seeded=seeded)
    noise = [lambda: torch.rand(5), random.random, np.random.rand, lambda: torch.manual_seed(1)]
    for between in noise:
        assert torch.equal(drawn(3, between=between, seeded=seeded), first)
    other = drawn(4, seeded=seeded)
    assert not torch.equal(other[:, 0], first[:, 0])
    assert sorted(other[:, 0].tolist()) == list(range(10))


def test_the_programs_own_draws_are_what_they_would_be() -> None:
    found = []
    for is_loaded in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        if is_loaded:
            drawn(0)
        found.append((float(torch.rand(())), random.random(), float(np.random.rand())))  # noqa: NPY002
    assert found[0] == found[1]


def test_what_was_drawn_is_drawn_again() -> None:
    seen = SeenDraws()
    seen.see(1)
    seen.see(2)  # nothing was drawn between
    first = torch.rand(2), random.random(), np.random.random()  # noqa: NPY002
    seen.see(3)
    torch.rand(1)
    states = [*seen.before(3)]
    assert len(states) == 1 and len([*seen.before(4)]) == 2 and not [*seen.before(1)]
    states[0]()
    again = torch.rand(2), random.random(), np.random.random()  # noqa: NPY002
    assert torch.equal(again[0], first[0]) and again[1:] == first[1:]
