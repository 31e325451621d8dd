"""A script in several processes, while it is recorded: one of them, and what it does together with the others."""

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
        this: which one it is.
        part: its rows of the whole batch that is trained on; None where there is one process.

    Args:
        size: in how many processes the script was observed.
        is_float64: whether models are put into float64: before they are wrapped, as the wrapper looks at their types.

    Raises:
        UsageError: it runs in another number now.
    """

    def __init__(self, size: int, *, is_float64: bool) -> None:
        self.this = ProcessRank.of_this_process()
        self.part: BatchPart | None = None
        if self.this.size != size:
            raise UsageError(
                f"the written trainer is of a script in {size} processes, and this one runs in {self.this.size}: write "
                "it again, by port script"
            )
        if is_float64 and size > 1:
            replace_method(DistributedDataParallel, "__init__", _in_float64)

    def part_of(self, batch: Any) -> BatchPart | None:
        """The rows that this process has of the whole batch, whose own it is given."""
        tensors = [tensor for _, tensor in tensors_in(batch) if tensor.dim()]
        if self.this.size == 1 or not tensors:
            return None
        own = len(tensors[0])
        self.part = BatchPart(torch.arange(own) + self.this.number * own, own * self.this.size)
        return self.part

    def mean(self, loss: Tensor) -> Tensor:
        """Of the losses of all processes, whose gradients DistributedDataParallel averages."""
        if self.this.size == 1:
            return loss
        total = loss.clone()
        dist.all_reduce(total)
        return total / self.this.size

    def in_turn(self, share: Callable[[], object]) -> None:
        """Do something first in the first process, and then in the others, which find what it has left."""
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
