"""Which replica sees which samples: each global batch of a plan is divided the same way on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from port.data.plan import IndexPlan
from port.errors import UnknownChoice, UsageError

SPLITS = ("interleaved", "contiguous")
UNEVEN = ("pad", "weight")


@dataclass(frozen=True)
class Shards:
    """A plan's batches, divided among ``replicas`` that train together.

    Attributes:
        plan: the order of the samples; its batches are the global ones. With ``drop_last`` an epoch's partial last
            batch is left out, and ``uneven`` has no effect.
        replicas: the number of replicas that share a batch.
        split: "interleaved": replica r sees samples r, r + replicas, … of a batch, as with torch's DistributedSampler
            (D7); "contiguous": it sees a block, as JAX shards an array.
        uneven: what to do if the replicas do not divide an epoch's last batch: "pad" fills it with the epoch's first
            samples, as DistributedSampler does, which are then seen twice; "weight" gives the first replicas one more
            than the others, and each loss a weight (D8).
        microbatches: how many microbatches each replica's share is processed in; each is a block of it.

    Raises:
        UsageError: fewer than one replica or microbatch, or a batch that they do not divide.
        UnknownChoice: an unknown ``split`` or ``uneven``.
    """

    plan: IndexPlan
    replicas: int
    split: str = "interleaved"
    uneven: str = "pad"
    microbatches: int = 1

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UnknownChoice("split", self.split, SPLITS)
        if self.uneven not in UNEVEN:
            raise UnknownChoice("option for an uneven batch", self.uneven, UNEVEN)
        if self.replicas < 1:
            raise UsageError(f"replicas must be at least 1, got {self.replicas}")
        if self.microbatches < 1:
            raise UsageError(f"microbatches must be at least 1, got {self.microbatches}")
        if self.plan.batch_size % self._parts:
            down = self.plan.batch_size // self._parts * self._parts
            nearest = [str(size) for size in (down, down + self._parts) if size]
            parts = f" in {self.microbatches} microbatches each" if self.microbatches > 1 else ""
            raise UsageError(
                f"a (global) batch of {self.plan.batch_size} cannot be divided equally among {self.replicas} replicas"
                f"{parts}: choose a batch of {' or '.join(nearest)}, or another number of replicas"
            )

    def epoch(self, epoch: int) -> Iterator[list[np.ndarray]]:
        """Yield the batches of one epoch (from 0): for each, every replica's samples, int64 indices.

        All have the length ``batch_size / replicas``, except in the last batch; under "weight" the last batch's may
        differ by one, and be empty.
        """
        samples = self.plan.epoch(epoch)
        for start in range(0, len(samples), self.plan.batch_size):
            batch = samples[start : start + self.plan.batch_size]
            batch = np.concatenate([batch, np.resize(samples, self._missing(len(batch)))])
            yield self._shared(batch)

    @property
    def _parts(self) -> int:
        return self.replicas * self.microbatches

    def _missing(self, size: int) -> int:
        """The number of samples that a batch of this size is padded by."""
        return -size % self._parts if self.uneven == "pad" else 0

    def _shared(self, batch: np.ndarray) -> list[np.ndarray]:
        if self.split == "contiguous":
            return np.array_split(batch, self.replicas)
        return [batch[replica :: self.replicas] for replica in range(self.replicas)]


class Places(NamedTuple):
    """The positions, in their global batch, of the samples that one process loads.

    Attributes:
        rows: their positions in it, int32 (microbatches, n); of several replicas, one after the other along n.
        own_rows: their positions in their own replica's part of it, int32 (microbatches, n).
        real: whether a sample counts, bool (microbatches, n); the others pad arrays to equal sizes.
        batch_size: the number of samples in the global batch, padding included.
        own_size: the number of samples in a replica's part, padding included.
    """

    rows: np.ndarray
    own_rows: np.ndarray
    real: np.ndarray
    batch_size: int
    own_size: int


@dataclass(frozen=True)
class Share:
    """What one process loads: the part of each global batch that its replicas see. Loaders follow it like a plan.

    Its batches are flat: microbatch by microbatch and in each replica by replica, as `Places.rows` read row by row.

    Attributes:
        shards: how the plan's batches are divided.
        replicas: the replicas of this process, of those in ``shards``.
        filled: where "weight" leaves replicas or microbatches unequal, pad the smaller ones with samples that do not
            count, since all shards of an array have one size.

    Raises:
        UsageError: replicas that do not exist, or one that gets no sample and is not filled.
    """

    shards: Shards
    replicas: range
    filled: bool = False

    def __post_init__(self) -> None:
        if not self.replicas or min(self.replicas) < 0 or max(self.replicas) >= self.shards.replicas:
            raise UsageError(f"replicas are numbered 0 to {self.shards.replicas - 1}, got {self.replicas}")
        rest = self.shards.plan.samples_per_epoch % self.shards.plan.batch_size
        if 0 < rest < self.shards.replicas and self.shards.uneven == "weight" and not self.filled:
            raise UsageError(
                f"an epoch's last batch has {rest} samples, too few for {self.shards.replicas} replicas: pad it, drop "
                "it, or choose another batch size"
            )

    @property
    def length(self) -> int:
        """The number of samples in the dataset."""
        return self.shards.plan.length

    @property
    def batch_size(self) -> int:
        """The number of samples of a full batch that this process loads."""
        return self.shards.plan.batch_size // self.shards.replicas * len(self.replicas)

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return self.shards.plan.batches_per_epoch

    def epoch(self, epoch: int) -> np.ndarray:
        """The samples of one epoch (from 0), batch after batch, as int64 indices."""
        samples, size = self.shards.plan.epoch(epoch), self.shards.plan.batch_size
        loaded = []
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            places = self._places(len(batch))
            batch = np.concatenate([batch, np.resize(samples, places.batch_size - len(batch))])
            loaded.append(batch[places.rows[places.real | self.filled]])
        return np.concatenate(loaded)

    def places(self, step: int) -> Places:
        """The positions of the samples of the batch at ``step`` (from 0, over all epochs) in the global batch."""
        plan = self.shards.plan
        start = step % plan.batches_per_epoch * plan.batch_size
        return self._places(min(plan.batch_size, plan.length - start))

    def _places(self, size: int) -> Places:
        """The positions for a batch of ``size`` samples."""
        padded = size + self.shards._missing(size)
        of_replica = self.shards._shared(np.arange(padded, dtype=np.int32))
        longest = max(map(len, of_replica))
        longest += -longest % self.shards.microbatches
        rows = np.zeros((len(self.replicas), longest), np.int32)
        real = np.zeros((len(self.replicas), longest), bool)
        for row, replica in enumerate(self.replicas):
            own = of_replica[replica]
            rows[row, : len(own)], real[row, : len(own)] = own, True
        own_rows = np.broadcast_to(np.arange(longest, dtype=np.int32), rows.shape)
        rows, own_rows, real = map(self._by_microbatch, (rows, own_rows, real))
        return Places(rows, own_rows, real, padded, longest)

    def _by_microbatch(self, values: np.ndarray) -> np.ndarray:
        """(replicas, k · n) → (k, replicas · n)."""
        k = self.shards.microbatches
        return values.reshape(len(values), k, -1).swapaxes(0, 1).reshape(k, -1)


def loss_weights(shards: list[np.ndarray]) -> list[float]:
    """Weights of the replicas' mean losses, so that the mean over the replicas is the batch's: n_r · R / N.

    All are 1 if the shards have equal sizes. For unequal sizes, the mean of means is not the mean (D8).
    """
    total = sum(map(len, shards))
    return [len(shard) * len(shards) / total for shard in shards]
