"""A loader's batches, by its own arguments or by a batch sampler that says the same."""

from __future__ import annotations

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

from port.scripts.observing.batching import batching

DATA = TensorDataset(torch.arange(10.0))


class Own(BatchSampler):
    pass


def test_both_ways_to_say_it() -> None:
    said = DataLoader(DATA, batch_size=4, shuffle=True, drop_last=True)
    given = DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 4, drop_last=True))
    for loader in (said, given):
        size, drops, sampler = batching(loader)
        assert (size, drops, type(sampler)) == (4, True, RandomSampler)


def test_another_batch_sampler_is_itself() -> None:
    """What it gives is not known by its numbers."""
    own = Own(SequentialSampler(DATA), 4, drop_last=True)
    assert batching(DataLoader(DATA, batch_sampler=own)) == (None, False, own)
    size, _, sampler = batching(DataLoader(DATA, batch_size=None))
    assert size is None and type(sampler) is SequentialSampler
