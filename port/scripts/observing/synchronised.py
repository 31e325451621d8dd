"""Run SyncBatchNorm on a CPU, which torch refuses, so that scripts written for GPUs can be watched without any.

It computes the same as torch on GPUs: the mean and the biased variance of the whole batch; the unbiased variance goes
into the running statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from port.scripts.observing.session import replace_method
from port.scripts.ranks import ProcessRank


def allow_on_cpu() -> None:
    """Allow it from here on, in each of several processes."""
    if ProcessRank.of_this_process().size > 1:
        replace_method(nn.SyncBatchNorm, "forward", _around)
        replace_method(DistributedDataParallel, "_passing_sync_batchnorm_handle", _around_check)


def _around(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(this: nn.SyncBatchNorm, x: Tensor) -> Tensor:
        is_ours = this.training and x.device.type == "cpu" and dist.is_initialized() and dist.get_world_size() > 1
        result: Tensor = _normalised(this, x) if is_ours else original(this, x)
        return result

    return forward


def _around_check(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the DDP check of its layers, which rejects SyncBatchNorm on a CPU."""

    def check(this: DistributedDataParallel, module: nn.Module) -> None:
        if any(one.device.type != "cpu" for one in module.parameters()):
            original(this, module)

    return check


def _normalised(this: nn.SyncBatchNorm, x: Tensor) -> Tensor:
    axes, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
    group = this.process_group
    count = _Sum.apply(torch.tensor(float(x.numel() // x.size(1)), dtype=x.dtype), group)
    mean = _Sum.apply(x.sum(axes), group) / count
    centred = x - mean.view(shape)
    variance = _Sum.apply(centred.square().sum(axes), group) / count
    if this.track_running_stats and this.running_mean is not None and this.running_var is not None:
        assert this.num_batches_tracked is not None
        this.num_batches_tracked.add_(1)
        momentum = this.momentum if this.momentum is not None else 1.0 / float(this.num_batches_tracked)
        with torch.no_grad():
            this.running_mean.lerp_(mean, momentum)
            this.running_var.lerp_(variance * count / (count - 1), momentum)
    result = centred * torch.rsqrt(variance + this.eps).view(shape)
    return result if this.weight is None else result * this.weight.view(shape) + this.bias.view(shape)


class _Sum(torch.autograd.Function):
    """The sum over a group's processes, all if it is None; each term affects every process's loss."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None
