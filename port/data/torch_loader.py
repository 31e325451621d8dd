"""The index plan as a torch Sampler."""

from __future__ import annotations

from collections.abc import Iterator

from torch.utils.data import Sampler

from port.data.plan import IndexPlan, PlannedIndex
from port.data.shards import Share


class PlanSampler(Sampler[list[PlannedIndex]]):
    """A batch sampler that follows a plan; each iteration is one epoch.

    Pass it to a DataLoader as ``batch_sampler`` and set the epoch before each one, as with torch's
    DistributedSampler::

        sampler = PlanSampler(plan)
        loader = DataLoader(dataset, batch_sampler=sampler)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for images, labels in loader: ...

    A `Share` of a plan works as well: one replica's part of every batch.
    """

    def __init__(self, plan: IndexPlan | Share) -> None:
        self.plan = plan
        self.epoch = self.skip = 0

    def set_epoch(self, epoch: int, skip: int = 0) -> None:
        """Set the epoch (from 0) whose batches the next iteration yields, without its first ``skip``."""
        self.epoch, self.skip = epoch, skip

    def __len__(self) -> int:
        return self.plan.batches_per_epoch - self.skip

    def __iter__(self) -> Iterator[list[PlannedIndex]]:
        epoch, size = self.epoch, self.plan.batch_size
        indices = [PlannedIndex(index, epoch) for index in self.plan.epoch(epoch).tolist()]
        for start in range(self.skip * size, len(indices), size):
            yield indices[start : start + size]
