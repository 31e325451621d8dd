"""The index plan: which samples form which batch, decided once and followed by both loaders.

Two loaders that each shuffle on their own never agree. Here the order is a value: a permutation for every
epoch, drawn from the seed alone. `port.data.PlanSampler` passes it to a torch DataLoader, `port.data.PlanSource`
to grain; it depends neither on the number of workers, nor on the framework or the platform.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from port.errors import UsageError


class PlannedIndex(int):
    """An index into a dataset that remembers its epoch.

    It is an ``int``, so any map-style dataset accepts it; `port.data.Augmented` reads its ``epoch``, which is how the
    epoch reaches a loader's worker process.
    """

    epoch: int

    def __new__(cls, index: int, epoch: int) -> PlannedIndex:
        planned = super().__new__(cls, index)
        planned.epoch = epoch
        return planned

    def __reduce__(self) -> tuple[type[PlannedIndex], tuple[int, int]]:
        return PlannedIndex, (int(self), self.epoch)


@dataclass(frozen=True)
class IndexPlan:
    """The order in which ``length`` samples are visited, epoch after epoch.

    Attributes:
        length: the number of samples in the dataset.
        batch_size: the number of samples in a (global) batch.
        seed: the same seed gives the same plan on every platform and with every version of numpy.
        shuffle: use a new permutation every epoch; otherwise, the dataset's own order.
        drop_last: leave out an epoch's last samples if they do not fill a batch.

    Raises:
        UsageError: a length or batch size below 1, a negative or fractional seed, or no full batch in an epoch under
            ``drop_last``.
    """

    length: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = True

    def __post_init__(self) -> None:
        for name in ("length", "batch_size", "seed"):
            if not isinstance(getattr(self, name), Integral):
                raise UsageError(f"{name} must be a whole number, got {getattr(self, name)!r}")
        if self.length < 1:
            raise UsageError(f"a plan needs at least one sample, got length {self.length}")
        if self.batch_size < 1:
            raise UsageError(f"batch size must be at least 1, got {self.batch_size}")
        if self.seed < 0:
            raise UsageError(f"seed must not be negative, got {self.seed}")
        if self.drop_last and self.batch_size > self.length:
            raise UsageError(
                f"batch size {self.batch_size} exceeds the dataset's {self.length} samples, and the partial last "
                "batch is dropped, which leaves nothing; choose a smaller batch, or drop_last=False"
            )

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        whole, rest = divmod(self.length, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def samples_per_epoch(self) -> int:
        """The number of samples that an epoch visits: fewer than ``length`` if the last batch is dropped."""
        return self.batches_per_epoch * self.batch_size if self.drop_last else self.length

    def epoch(self, epoch: int) -> np.ndarray:
        """The samples of one epoch (from 0) in order, as int64 indices, shape (samples_per_epoch,)."""
        if epoch < 0:
            raise UsageError(f"epochs and steps are counted from 0, got epoch {epoch}")
        if not self.shuffle:
            return np.arange(self.samples_per_epoch)
        # Raw bits of a counter-based generator, sorted: numpy promises that these never change between its
        # releases, which it does not promise of Generator.permutation.
        bits = np.random.Philox(np.random.SeedSequence([self.seed, epoch])).random_raw(self.length)
        return np.argsort(bits, kind="stable")[: self.samples_per_epoch]

    def batch(self, step: int) -> np.ndarray:
        """The samples of the batch at ``step``, counted from 0 over all epochs, as int64 indices."""
        epoch, place = divmod(step, self.batches_per_epoch)
        return self.epoch(epoch)[place * self.batch_size : (place + 1) * self.batch_size]
