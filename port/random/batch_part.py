"""The rows that a replica or a microbatch has of a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from port.errors import UsageError


@dataclass(frozen=True)
class BatchPart:
    """Some samples of a batch.

    Attributes:
        rows: (n,), integers: their positions in the whole batch, from 0.
        batch_size: samples in the whole batch.
    """

    rows: Tensor
    batch_size: int

    @classmethod
    def of(cls, rows: Tensor | Sequence[int] | None, batch_size: int | None) -> BatchPart | None:
        """None for a whole batch.

        Raises:
            UsageError: one of the two alone, or rows that are no positions in the batch.
        """
        if rows is None and batch_size is None:
            return None
        if rows is None or batch_size is None:
            given, missing = ("rows", "batch_size") if batch_size is None else ("batch_size", "rows")
            raise UsageError(f"expected rows and batch_size together, but got {given} alone; give {missing} too")
        positions = torch.as_tensor(rows)
        if not positions.numel():
            positions = positions.to(torch.int64)  # an empty list comes as float32
        no_integers = positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex()
        if positions.ndim != 1 or no_integers:
            got = f"shape {tuple(positions.shape)} and {positions.dtype}"
            raise UsageError(f"rows are integers of shape (n,), but came with {got}; give positions in the whole batch")
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < batch_size:
            got = f"reach from {int(positions.min())} to {int(positions.max())}"
            raise UsageError(f"rows are positions in a batch of {batch_size}, from 0, but {got}; give the whole's size")
        return cls(positions, batch_size)

    def whole(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that the whole batch's draw has, for the one of this part's.

        Raises:
            UsageError: this shape does not begin with this part's samples.
        """
        if tuple(shape[:1]) != tuple(self.rows.shape):
            got = f"{tuple(shape)}; give each sample's row, and the samples first"
            raise UsageError(f"expected a draw for {len(self.rows)} samples, as rows has, but it has the shape {got}")
        return self.batch_size, *shape[1:]
