"""The replicas that share a batch, in PyTorch: the ranks of DistributedDataParallel, a process each.

`side_by_side/pytorch/parallel.py` explains DDP and the collectives; here they are what the trainer needs of them.
torchrun starts the ranks, here or on several machines, and says to each which it is.

Alone, to see their samples: python -m side_by_side.pytorch.replicas
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from port.data import IndexPlan, Places
from port.random import fold_in
from side_by_side.config import Config
from side_by_side.pytorch import checkpoint
from side_by_side.ranks import Rank

# %% The inputs of a step


class Batch(NamedTuple):
    """One microbatch of a step's inputs: the samples that this rank sees."""

    images: Tensor  # (n, C, H, W) uint8
    labels: Tensor  # (n,) int64
    rows: Tensor | None  # (n,) int32: their positions in the batch that dropout masks are drawn for


class Sizes(NamedTuple):
    """What a step needs to know about the whole batch."""

    batch: int  # samples in the global batch
    masks: int  # samples that dropout masks are drawn for


# %% The replicas


@dataclass(frozen=True)
class Replicas(Rank):
    """This process's place among the replicas."""

    @property
    def checkpoints(self) -> Any:
        """The module that saves and restores: the whole state in one file."""
        return checkpoint

    def to_device(self, model: nn.Module, device: torch.device) -> None:
        """Move the model to its device, in place, before the optimizer is made: DDP's ranks have all of it."""
        model.to(device)

    def replicate(self, model: nn.Module) -> nn.Module:
        """The model whose backward() averages the gradients of all ranks; rank 0's buffers go to all (D5)."""
        if self.config.replicas == 1:
            return model
        # DDP lays out its buckets again after the first backward(), and with them the order in which more than two
        # ranks are summed: a run that was resumed would differ in last bits. Where it looks for unused parameters, it
        # does not.
        is_resumed_to_the_bit = self.config.checkpoint_every is not None
        return DistributedDataParallel(model, find_unused_parameters=is_resumed_to_the_bit)

    def whole(self, tensor: Tensor) -> Tensor:
        """A whole tensor, of which a rank may hold a part."""
        return tensor

    def place(self, images: Tensor, labels: Tensor, places: Places, device: torch.device) -> tuple[list[Batch], Sizes]:
        """What this process has loaded, microbatch by microbatch."""
        masks = {"global": (places.rows, places.batch_size), "replica": (places.own_rows, places.own_size)}
        rows, drawn_for = masks[self.config.dropout_masks]
        is_whole = self.config.replicas * self.config.accumulate == 1
        counts = places.real.sum(1).tolist()
        parts = zip(images.to(device).split(counts), labels.to(device).split(counts), rows, places.real, strict=True)
        return [
            Batch(images, labels, None if is_whole else torch.from_numpy(rows[real]))
            for images, labels, rows, real in parts
        ], Sizes(places.batch_size, drawn_for)

    @property
    def averaged(self) -> int:
        """How many losses `mean` averages: each is of an equal part of the batch."""
        return self.config.replicas

    def accumulating(self, model: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Within it, gradients stay this rank's own, to be averaged with the last microbatch's."""
        return nullcontext() if last or not isinstance(model, DistributedDataParallel) else model.no_sync()

    def mean(self, loss: Tensor) -> Tensor:
        """A loss of each rank, averaged."""
        if self.config.replicas > 1:
            dist.all_reduce(loss)
            loss /= self.config.replicas
        return loss

    def key(self, key: Tensor) -> Tensor:
        """The key of a replica's dropout masks: one for all, whose rows they take, or one for each."""
        own = self.config.replicas > 1 and self.config.dropout_masks == "replica"
        return fold_in(key, self.rank) if own else key


# %% Only on this side


class _SumOverRanks(torch.autograd.Function):
    """all_reduce that can be differentiated: what each rank adds changes every rank's loss."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class SynchronisedBatchNorm(nn.BatchNorm2d):
    """torch.nn.SyncBatchNorm, which takes no CPU tensors (D6): one batch's statistics, over all ranks."""

    momentum: float
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        axes, shape = (0, 2, 3), (1, -1, 1, 1)
        values = _SumOverRanks.apply(torch.full_like(input.sum(), input.numel() / input.shape[1]))
        count = values.clamp(min=1)  # a microbatch that is empty on every rank changes no statistics
        mean = _SumOverRanks.apply(input.sum(axes)) / count
        centred = input - mean.view(shape)
        var = _SumOverRanks.apply(centred.square().sum(axes)) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            share = self.momentum * (values > 1).to(values)  # a Python number times a bool would be float32
            unbiased = var * (count / (count - 1).clamp(min=1))  # torch keeps this one (W7)
            for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
                running.mul_(1 - share).add_(batch * share)
        output = centred * torch.rsqrt(var + self.eps).view(shape)
        if self.weight is not None:
            output = output * self.weight.view(shape)
        return output if self.bias is None else output + self.bias.view(shape)


# %% The samples of each


def main() -> None:
    """Two replicas that share a batch of eight, in two microbatches each: who sees what, and for which masks."""
    for split in ("interleaved", "contiguous"):
        config = Config(batch_size=8, devices=2, accumulate=2, split=split)
        plan = IndexPlan(length=8, batch_size=8, seed=0)
        for rank in range(2):
            replicas = Replicas(config, rank, processes=2)
            share = replicas.share(plan, filled=False)
            samples = torch.from_numpy(share.epoch(0))  # in place of images: which they are
            batch, sizes = replicas.place(samples, samples, share.places(0), torch.device("cpu"))
            labels = [part.labels.tolist() for part in batch]
            rows = [part.rows.tolist() for part in batch if part.rows is not None]
            print(f"{split:<11} replica {rank}: samples {labels}, rows {rows} of {sizes.masks}")


if __name__ == "__main__":
    main()
