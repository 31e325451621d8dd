"""One of a recorded script's processes, and its collectives with the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from port.errors import UsageError
from port.random.batch_part import BatchPart
from port.scripts.observing.described import tensors_in
from port.scripts.observing.session import replace_method
from port.scripts.ranks import ProcessRank


class RecordedRanks:
    """This process among all that train.

    Attributes:
        this: this process's rank.
        part: its rows of the global batch; None if there is one process.

    Args:
        size: the number of processes in which the script was observed.
        is_float64: whether to cast models to float64, before they are wrapped, because the wrapper checks dtypes.

    Raises:
        UsageError: it runs in a different number of processes now.
    """

    def __init__(self, size: int, *, is_float64: bool) -> None:
        self.this = ProcessRank.of_this_process()
        self.part: BatchPart | None = None
        if self.this.size != size:
            raise UsageError(
                f"the trainer was written from a script in {size} processes, but this one runs in {self.this.size}: "
                "write it again with port script"
            )
        if is_float64 and size > 1:
            replace_method(DistributedDataParallel, "__init__", _in_float64)

    def part_of(self, batch: Any) -> BatchPart | None:
        """The rows of the global batch that this process's batch holds."""
        tensors = [tensor for _, tensor in tensors_in(batch) if tensor.dim()]
        if self.this.size == 1 or not tensors:
            return None
        own = len(tensors[0])
        self.part = BatchPart(torch.arange(own) + self.this.number * own, own * self.this.size)
        return self.part

    def mean(self, loss: Tensor) -> Tensor:
        """The mean of all processes' losses, whose gradients DistributedDataParallel averages."""
        if self.this.size == 1:
            return loss
        total = loss.clone()
        dist.all_reduce(total)
        return total / self.this.size

    def in_turn(self, share: Callable[[], object]) -> None:
        """Run ``share`` first on rank 0, then on the others, which find its result."""
        if self.this.is_first:
            share()
        if self.this.size > 1:
            dist.barrier()
        if not self.this.is_first:
            share()


def _in_float64(original: Callable[..., Any]) -> Callable[..., Any]:
    def construct(this: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        original(this, module.double(), *args, **kwargs)

    return construct
