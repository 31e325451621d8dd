"""Gradient accumulation in PyTorch: a batch of 64 in microbatches of 4. Alone, and to measure the table below again:

    python -m side_by_side.pytorch.accumulate
    python -m side_by_side.pytorch.accumulate --table

backward() adds to .grad in place, so loss / k and one zero_grad() are all it takes; the graph of each microbatch is
freed by its backward(), and memory falls with the microbatch. Time grows with k, as Python launches each one:

    k                          4                16                64               256
    whole         3.9 ms  6.3 MB    3.9 ms  6.3 MB    3.9 ms  6.3 MB    3.4 ms  6.3 MB
    unrolled      2.4 ms 1.64 MB    3.5 ms 0.47 MB    7.5 ms 0.17 MB   24.5 ms 0.13 MB
    fori_loop     2.2 ms 1.64 MB    3.6 ms 0.47 MB    7.0 ms 0.15 MB   23.7 ms 0.13 MB
    scan          3.0 ms 1.64 MB    4.7 ms 0.47 MB   12.3 ms 0.17 MB   22.6 ms 0.13 MB
    vmap          5.7 ms  6.6 MB    6.5 ms  6.9 MB    9.5 ms  9.0 MB   13.7 ms 22.8 MB
    multi_steps   2.6 ms 1.64 MB    3.8 ms 0.46 MB    8.2 ms 0.17 MB   27.4 ms 0.13 MB

A batch of 1,024, 256 hidden units, float64, one thread of a shared 2-core CPU, torch 2.14.1; memory is the peak of
what the run allocates. Read the JAX side's table beside it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

FEATURES, CLASSES, LR = 24, 10, 0.1
KS = (4, 16, 64, 256)
Batch = tuple[Tensor, Tensor]  # x (N, 24) and labels (N,)


# %% A small model, with batch statistics or without


class Net(nn.Module):
    """24 → hidden → 10, with BatchNorm between or without."""

    def __init__(self, hidden: int, batch_norm: bool) -> None:
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, hidden)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else None
        self.fc2 = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x = x if self.norm is None else self.norm(x)
        return self.fc2(torch.relu(x))


def build(hidden: int = 32, *, batch_norm: bool = False) -> Net:
    """Build it with weights drawn by numpy, the same on both sides; float64."""
    net, random = Net(hidden, batch_norm).double(), np.random.default_rng(0)
    for layer in (net.fc1, net.fc2):
        layer.weight.data = torch.tensor(random.normal(size=layer.weight.shape[::-1]).T / 5)
        layer.bias.data = torch.tensor(random.normal(size=layer.bias.shape) / 5)
    return net


def draw_batch(size: int = 64) -> Batch:
    """Draw x and labels, the same on both sides."""
    random = np.random.default_rng(1)
    return torch.from_numpy(random.normal(size=(size, FEATURES))), torch.from_numpy(random.integers(0, CLASSES, size))


# %% The whole batch at once


def loss_fn(model: nn.Module, batch: Batch) -> Tensor:
    """The mean over the samples; running statistics change in passing."""
    return F.cross_entropy(model(batch[0]), batch[1])


def gradient(model: nn.Module, batch: Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The gradient of one microbatch, or of any batch: beside the model, where backward() would add it to .grad."""
    loss = loss_fn(model, batch)
    return loss.detach(), torch.autograd.grad(loss, tuple(model.parameters()))


def split(batch: Batch, k: int) -> Batch:
    """(N, …) → (k, N / k, …). Only for parts of equal size is the mean of their means the mean of the whole."""
    return batch[0].unflatten(0, (k, -1)), batch[1].unflatten(0, (k, -1))


def whole(model: nn.Module, batch: Batch, k: int = 1) -> Tensor:
    """The result that each form below must match: the loss, and the gradients in .grad."""
    model.zero_grad()
    loss = loss_fn(model, batch)
    loss.backward()
    return loss.detach()


# %% The tempting wrong version


def add_(total: tuple[Tensor, ...], more: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Here it modifies."""
    for leaf, other in zip(total, more, strict=True):
        leaf.add_(other)
    return total


def div_(total: tuple[Tensor, ...], divisor: int) -> tuple[Tensor, ...]:
    """Here it modifies."""
    for leaf in total:
        leaf.div_(divisor)
    return total


def wrong(model: nn.Module, batch: Batch, k: int) -> Tensor:
    """Sums the gradients, but mixes sum and mean. Line for line in JAX, it updates with the first microbatch alone."""
    first, *others = zip(*split(batch, k), strict=True)
    loss, gradients = gradient(model, first)
    for part in others:
        more_loss, more = gradient(model, part)
        loss += more_loss
        add_(gradients, more)
    div_(gradients, len(batch[0]))  # each of the k is a mean already: divide their sum by k, not by the samples
    for parameter, summed in zip(model.parameters(), gradients, strict=True):
        parameter.grad = summed
    return loss / len(batch[0])


# %% A Python loop


def start(model: nn.Module) -> Tensor:
    """Nothing accumulated yet: zero_grad() once, before the first microbatch."""
    model.zero_grad()
    return torch.zeros((), dtype=torch.float64)


def add(total: Tensor, model: nn.Module, part: Batch) -> Tensor:
    """Add one microbatch: backward() adds to .grad; running statistics pass from each microbatch to the next."""
    loss = loss_fn(model, part)
    loss.backward()
    return total + loss.detach()


def mean(total: Tensor, model: nn.Module, k: int) -> Tensor:
    """The sum of k means, divided once: what loss / k in each microbatch comes to."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.div_(k)
    return total / k


def unrolled(model: nn.Module, batch: Batch, k: int) -> Tensor:
    """The usual loop: loss / k, as backward() sums (O18). There is no program that could grow."""
    total = start(model)
    for part in zip(*split(batch, k), strict=True):
        loss = loss_fn(model, part) / k
        loss.backward()
        total += loss.detach()
    return total


# %% A loop inside the compiled program


def fori_loop(model: nn.Module, batch: Batch, k: int) -> Tensor:
    """By index, and divided at the end; an eager loop like the one above, each graph freed by its backward()."""
    xs, ys = split(batch, k)
    total = start(model)
    for i in range(k):
        total = add(total, model, (xs[i], ys[i]))
    return mean(total, model, k)


def scan(model: nn.Module, batch: Batch, k: int) -> Tensor:
    """Over the microbatches themselves; the same eager loop."""
    total = start(model)
    for part in zip(*split(batch, k), strict=True):
        total = add(total, model, part)
    return mean(total, model, k)


# %% All microbatches at once


def vmap(model: nn.Module, batch: Batch, k: int) -> Tensor:
    """Right except for running statistics, updated once instead of k times; and k gradients are alive at once."""
    stats = {name: buffer.expand(k, *buffer.shape).clone() for name, buffer in model.named_buffers()}
    params = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(params: dict[str, Tensor], stats: dict[str, Tensor], *part: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, (params, stats), part[:1]), part[1])

    per_microbatch = torch.vmap(torch.func.grad_and_value(loss), in_dims=(None, 0, 0, 0))
    gradients, losses = per_microbatch(params, stats, *split(batch, k))
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name].mean(0)
    for name, buffer in model.named_buffers():
        buffer.copy_(stats[name].to(losses.dtype).mean(0))
    return losses.mean()


# %% An optimizer step every k-th microbatch


def micro_step(model: nn.Module, part: Batch, optimizer: Optimizer, k: int, count: int) -> None:
    """One microbatch, the ``count``-th from 1; an update in every k-th call."""
    (loss_fn(model, part) / k).backward()
    if count % k == 0:
        optimizer.step()
        optimizer.zero_grad()


def multi_steps(model: nn.Module, batch: Batch, k: int, optimizer: Optimizer) -> nn.Module:
    """The model after one update. Gradients add up in .grad, in the parameters' own precision."""
    optimizer.zero_grad()
    for count, part in enumerate(zip(*split(batch, k), strict=True), 1):
        micro_step(model, part, optimizer, k, count)
    return model


# %% Several replicas, one all-reduce an update


def data_parallel(model: DistributedDataParallel, batch: Batch, k: int, *, sync_every: bool = False) -> Tensor:
    """Each rank accumulates over its own share of the batch, ``batch`` here; for models without batch statistics.

    DDP averages the gradients over the ranks in every backward(); inside no_sync() it leaves them each rank's own, and
    the last microbatch's backward() averages what has been summed.
    """
    total = start(model)
    for i, part in enumerate(zip(*split(batch, k), strict=True), 1):
        with nullcontext() if sync_every or i == k else model.no_sync():
            loss = loss_fn(model, part) / k  # forward has to be inside too
            loss.backward()
        total += loss.detach()
    return total


# %% What it shows, and what it costs


def difference(ours: Sequence[Any], right: Sequence[Tensor]) -> float:
    """The largest, over all parameters, relative to the largest number of the right ones."""
    pairs = list(zip(ours, right, strict=True))
    return max(float((a - b).abs().max()) for a, b in pairs) / max(float(b.abs().max()) for _, b in pairs)


def measure(form: Callable[..., Any], k: int) -> tuple[float, float]:
    """The least milliseconds of ten runs, and MB of temporary memory; 1,024 samples, 256 hidden units."""
    model, batch = build(256), draw_batch(1024)
    run = partial(form, model, batch, k)
    if form is multi_steps:
        run = partial(run, torch.optim.SGD(model.parameters(), LR))
    run()
    running = []
    for _ in range(10):
        begin = time.perf_counter()
        run()
        running.append(time.perf_counter() - begin)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    return 1e3 * min(running), held.max() / 1e6


def table() -> None:
    """A row a form, a column a k."""
    print(f"{'k':12}" + "".join(f"{k:>20}" for k in KS))
    for form in (whole, unrolled, fori_loop, scan, vmap, multi_steps):
        cells = ("{:8.1f} ms {:5.2f} MB".format(*measure(form, k)) for k in KS)
        print(f"{form.__name__:12}" + "".join(cells))


def main() -> None:
    """Each form against the whole batch."""
    batch, k = draw_batch(), 16
    for batch_norm in (False, True):
        model = build(batch_norm=batch_norm)
        right = gradient(model, batch)[1]
        print(f"distance from the whole batch's gradient, {'with' if batch_norm else 'without'} batch statistics")
        for form in (wrong, unrolled, fori_loop, scan, vmap, data_parallel)[: 5 if batch_norm else 6]:
            wrapped: Any = DistributedDataParallel(model) if form is data_parallel else model
            form(wrapped, batch, k)
            print(f"  {form.__name__:14}{difference([param.grad for param in model.parameters()], right):.1e}")
    model = build()
    params = [parameter.detach().clone() for parameter in model.parameters()]
    stepped = [param - LR * leaf for param, leaf in zip(params, gradient(model, batch)[1], strict=True)]
    print("distance of the parameters after one update")
    updated = multi_steps(model, batch, k, torch.optim.SGD(model.parameters(), LR))
    print(f"  multi_steps   {difference([param.detach() for param in updated.parameters()], stepped):.1e}")


if __name__ == "__main__":
    if "--table" in sys.argv:
        table()
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # under torchrun: ("gloo")
        main()
        dist.destroy_process_group()
