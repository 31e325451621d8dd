"""Which replica sees which samples: each global batch of a plan, shared out the same way on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from port.data.plan import IndexPlan
from port.errors import UnknownChoice, UsageError

SPLITS = ("interleaved", "contiguous")
UNEVEN = ("pad", "weight")


@dataclass(frozen=True)
class Shards:
    """A plan's batches for ``replicas`` that train together.

    Attributes:
        plan: the order of the samples; its batches are the global ones. With ``drop_last`` an epoch's last partial
            batch is left out, and what ``uneven`` says does not matter.
        replicas: how many share a batch.
        split: "interleaved": replica r has samples r, r + replicas, … of a batch, as torch's DistributedSampler gives
            them out (D7); "contiguous": a block of it, as JAX shards an array.
        uneven: an epoch's last batch, where the replicas do not divide it: "pad" fills it with the epoch's first
            samples, as DistributedSampler does, which are then seen twice; "weight" gives the first replicas one more
            than the others, and each loss a weight (D8).

    Raises:
        UsageError: no replica, or a batch that the replicas do not divide.
        UnknownChoice: another split, or another way with the last batch.
    """

    plan: IndexPlan
    replicas: int
    split: str = "interleaved"
    uneven: str = "pad"

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UnknownChoice("split", self.split, SPLITS)
        if self.uneven not in UNEVEN:
            raise UnknownChoice("way with an uneven batch", self.uneven, UNEVEN)
        if self.replicas < 1:
            raise UsageError(f"there is at least one replica, got {self.replicas}")
        if self.plan.batch_size % self.replicas:
            down = self.plan.batch_size // self.replicas * self.replicas
            nearest = [str(size) for size in (down, down + self.replicas) if size]
            raise UsageError(
                f"a (global) batch of {self.plan.batch_size} cannot be shared equally by {self.replicas} replicas: "
                f"take a batch of {' or '.join(nearest)}, or another number of replicas"
            )

    def epoch(self, epoch: int) -> Iterator[list[np.ndarray]]:
        """The batches of one epoch (from 0): of each, every replica's samples, int64 indices.

        All are of one length, ``batch_size / replicas`` but for the last batch; under "weight" the last batch's may
        differ by one, and be empty.
        """
        samples = self.plan.epoch(epoch)
        for start in range(0, len(samples), self.plan.batch_size):
            batch = samples[start : start + self.plan.batch_size]
            missing = -len(batch) % self.replicas
            if missing and self.uneven == "pad":
                batch = np.concatenate([batch, np.resize(samples, missing)])
            yield self._shared(batch)

    def _shared(self, batch: np.ndarray) -> list[np.ndarray]:
        if self.split == "contiguous":
            return np.array_split(batch, self.replicas)
        return [batch[replica :: self.replicas] for replica in range(self.replicas)]


def loss_weights(shards: list[np.ndarray]) -> list[float]:
    """What each replica multiplies its mean loss by, so that the mean over the replicas is the batch's: n_r · R / N.

    All are 1 where the shards are of one size. A mean of means over others is not the mean (D8).
    """
    total = sum(map(len, shards))
    return [len(shard) * len(shards) / total for shard in shards]
