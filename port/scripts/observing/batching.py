"""How a DataLoader forms its batches, whichever of its arguments set it."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, DataLoader


def batching(loader: DataLoader[Any]) -> tuple[int | None, bool, Any]:
    """Its batch size, whether it drops a smaller last batch, and its sampler of examples.

    ``batch_sampler=BatchSampler(sampler, 8, False)``, as some packages pass it, equals ``batch_size=8,
    sampler=sampler``. For any other batch sampler there is no batch size, and the batch sampler is returned as sampler.
    """
    own = loader.batch_sampler
    if loader.batch_size is None and type(own) is BatchSampler:
        return own.batch_size, own.drop_last, own.sampler
    return loader.batch_size, loader.drop_last, own if loader.batch_size is None and own is not None else loader.sampler
