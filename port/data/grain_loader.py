"""The index plan as a grain source."""

from __future__ import annotations

from typing import Any

from port.data.plan import IndexPlan, PlannedIndex
from port.data.shards import Share
from port.errors import UsageError


class PlanSource:
    """A dataset in the order of one epoch of a plan, as grain's random-access source.

    ::

        for epoch in range(epochs):
            source = PlanSource(dataset, plan, epoch)
            for images, labels in grain.MapDataset.source(source).batch(plan.batch_size): ...

    Element k is the k-th sample that the plan visits in ``epoch``; ``dataset`` is any map-style dataset, and is
    indexed by `PlannedIndex`, so that `port.data.Augmented` draws the same as on the torch side. Nothing is left to
    drop: the plan has already left out a partial last batch if it drops one. A `Share` of a plan works as well: one
    process's part of every batch.
    """

    def __init__(self, dataset: Any, plan: IndexPlan | Share, epoch: int = 0) -> None:
        if len(dataset) != plan.length:
            raise UsageError(f"the plan is for {plan.length} samples, the dataset has {len(dataset)}")
        _let_workers_start()
        self.dataset = dataset
        self.epoch = epoch
        self.indices = plan.epoch(epoch)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: Any) -> Any:
        return self.dataset[PlannedIndex(int(self.indices[position]), self.epoch)]


def _let_workers_start() -> None:
    """Mark absl's flags as parsed: else grain's ``mp_prefetch``, which reads one, fails (google/grain#1355)."""
    from absl import flags  # grain depends on it

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
