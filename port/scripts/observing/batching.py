"""How a DataLoader puts its batches together, however it was told so."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, DataLoader


def batching(loader: DataLoader[Any]) -> tuple[int | None, bool, Any]:
    """Its batch size, whether it drops a smaller last batch, and its sampler of examples.

    ``batch_sampler=BatchSampler(sampler, 8, False)``, as packages give it, is ``batch_size=8, sampler=sampler``. Of
    another batch sampler there is no batch size, and it is the sampler.
    """
    own = loader.batch_sampler
    if loader.batch_size is None and type(own) is BatchSampler:
        return own.batch_size, own.drop_last, own.sampler
    return loader.batch_size, loader.drop_last, own if loader.batch_size is None and own is not None else loader.sampler
