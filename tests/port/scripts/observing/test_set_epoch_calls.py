"""Which sampler's set_epoch is called, and where; a line that is never run is not recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, Sampler, TensorDataset

from port.scripts.observing.set_epoch_calls import SetEpochCalls


class Own(Sampler[int]):
    def __init__(self, size: int) -> None:
        self.size, self.epoch = size, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))

    def __len__(self) -> int:
        return self.size


def test_the_line_of_the_last_set_epoch_call() -> None:
    data = TensorDataset(torch.arange(6.0))
    spread: DistributedSampler[Any] = DistributedSampler(data, 2, 0)
    own = Own(6)
    inner = Own(6)
    loaders = {
        "spread": DataLoader(data, sampler=spread),
        "own": DataLoader(data, sampler=own),
        "never called": DataLoader(data, sampler=Own(6)),
        "shuffled": DataLoader(data, sampler=RandomSampler(data)),
        "within": DataLoader(data, batch_sampler=BatchSampler(inner, 2, drop_last=False)),
    }
    calls = SetEpochCalls()
    for loader in loaders.values():
        calls.see(loader)
    assert not any(map(calls.of, loaders.values()))
    spread.set_epoch(3)
    own.set_epoch(epoch=4)
    inner.set_epoch(5)
    assert (spread.epoch, own.epoch, inner.epoch) == (3, 4, 5)
    lines = {name: calls.of(loader) for name, loader in loaders.items()}
    assert {name: one and one["of"] for name, one in lines.items()} == {
        "spread": "sampler",
        "own": "sampler",
        "never called": None,
        "shuffled": None,
        "within": "batch_sampler.sampler",
    }
    assert lines["own"] is not None and lines["own"]["where"]["text"] == "own.set_epoch(epoch=4)"
