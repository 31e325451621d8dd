"""The rows of a whole batch that one replica or microbatch sees."""

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
        rows: the samples' positions in the whole batch, from 0: (n,), integers.
        batch_size: the number of samples in the whole batch.
    """

    rows: Tensor
    batch_size: int

    @classmethod
    def of(cls, rows: Tensor | Sequence[int] | None, batch_size: int | None) -> BatchPart | None:
        """Make a part from ``rows`` and ``batch_size``; None for a whole batch.

        Raises:
            UsageError: only one of the two is passed, or a row is not a position in the batch.
        """
        if rows is None and batch_size is None:
            return None
        if rows is None or batch_size is None:
            passed, missing = ("rows", "batch_size") if batch_size is None else ("batch_size", "rows")
            raise UsageError(f"expected rows and batch_size together, but got {passed} alone; pass {missing} too")
        positions = torch.as_tensor(rows)
        if not positions.numel():
            positions = positions.to(torch.int64)  # an empty list arrives as float32
        no_integers = positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex()
        if positions.ndim != 1 or no_integers:
            got = f"shape {tuple(positions.shape)} and {positions.dtype}"
            raise UsageError(f"rows must be integers of shape (n,), but got {got}; pass positions in the whole batch")
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < batch_size:
            got = f"reach from {int(positions.min())} to {int(positions.max())}"
            raise UsageError(f"rows are positions in a batch of {batch_size}, from 0, but {got}; pass the whole size")
        return cls(positions, batch_size)

    def whole(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the whole batch's draw, from the shape of this part's.

        Raises:
            UsageError: the first dimension does not match this part's number of samples.
        """
        if tuple(shape[:1]) != tuple(self.rows.shape):
            got = f"{tuple(shape)}; pass each sample's row, with the samples along the first dimension"
            raise UsageError(f"expected a draw for {len(self.rows)} samples, as rows has, but it has the shape {got}")
        return self.batch_size, *shape[1:]
