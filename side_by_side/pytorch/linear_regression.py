"""A line through points, data parallel: DistributedDataParallel in PyTorch. It runs alone, in seconds, on any machine:

    python -m side_by_side.pytorch.linear_regression --replicas 2 --plot fit.png
    torchrun --nproc-per-node 2 -m side_by_side.pytorch.linear_regression --plot fit.png

Its twin, with `pmap`, prints the same losses and the same line:

    port diff linear_regression
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

SLOPE, INTERCEPT, NOISE = 2.0, -1.0, 0.5
POINTS = 128
LEARNING_RATE = 0.005

# %% The points, the params and the loss


class Points(NamedTuple):
    """Inputs and targets, both (N, 1); on a rank, both (N / ranks, 1)."""

    xs: Tensor | np.ndarray
    ys: Tensor | np.ndarray


class Params(NamedTuple):
    """The line y = weight · x + bias, both (). While it trains, an nn.Linear holds them."""

    weight: Tensor | np.ndarray
    bias: Tensor | np.ndarray


def draw_points(seed: int) -> Points:
    """The line y = 2x − 1 with normal noise of standard deviation 0.5, float64."""
    generator = np.random.default_rng(seed)
    xs, noise = generator.normal(size=(2, POINTS, 1))
    return Points(xs, SLOPE * xs + INTERCEPT + NOISE * noise)


def init_params(seed: int) -> Params:
    """The line to begin with: both numbers from N(0, 1), float64."""
    weight, bias = np.random.default_rng([seed, 1]).normal(size=2)
    return Params(np.array(weight), np.array(bias))


def loss_fn(model: nn.Module, points: Points) -> Tensor:
    """The mean squared error, ()."""
    predictions = model(points.xs)
    return ((predictions - points.ys) ** 2).mean()


# %% On to the replicas, and back


def where_to_run(rank: int, replicas: int) -> torch.device:
    """This rank's GPU, if there are enough of them, else the CPU. Each rank is a process of its own."""
    if dist.is_torchelastic_launched():  # torchrun may have ranks on other machines: count only the ones on this
        rank, replicas = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    return torch.device("cuda", rank) if torch.cuda.device_count() >= replicas else torch.device("cpu")


def split(points: Points, device: torch.device) -> Points:
    """This rank's block of the points: (N / ranks, 1).

    DistributedSampler would deal the points out one by one (D7). With shards of one size the mean is the same (D8).
    """
    shards = [np.split(array, dist.get_world_size())[dist.get_rank()] for array in points]
    return Points(*(torch.from_numpy(shard).to(device) for shard in shards))


def replicate(params: Params, device: torch.device) -> DistributedDataParallel:
    """This rank's copy: the weight (1, 1), the bias (1,). As it is made, DDP sends the first rank's to all."""
    model = nn.Linear(1, 1, device=device, dtype=torch.float64)
    nn.init.constant_(model.weight, params.weight.item())
    nn.init.constant_(model.bias, params.bias.item())
    return DistributedDataParallel(model)


def one_copy(model: DistributedDataParallel) -> Params:
    """This rank's own copy, both (). Nothing is sent."""
    return Params(*(parameter.detach().squeeze() for parameter in model.module.parameters()))


# %% An update, and a thousand of them


def update(model: DistributedDataParallel, optimizer: Optimizer, points: Points) -> Tensor:
    """On one rank, with its copy and its shard: the params change in place; returns the shard's own loss, ().

    Each rank takes the gradient of its own loss; in the middle of backward DDP puts the mean of all ranks'
    gradients in its place. It does so for a forward pass through the wrapper only: `model.module(xs)` leaves each with
    a gradient of its own, and the copies part without an error.
    """
    optimizer.zero_grad()
    loss = loss_fn(model, points)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model: DistributedDataParallel, points: Points, steps: int) -> np.ndarray:
    """The loss over all ranks before each of some updates, (steps,). The model is changed in place."""
    optimizer = SGD(model.parameters(), lr=LEARNING_RATE)
    losses = torch.stack([update(model, optimizer, points) for _ in range(steps)])
    # DDP takes the mean of the gradients only. The losses of all steps go together, after the loop.
    dist.all_reduce(losses)
    return (losses / dist.get_world_size()).numpy(force=True)


# %% What is printed and drawn


def describe(what: str, array: Tensor | np.ndarray) -> None:
    """Print what type an array has on each rank and where it lives. All ranks call this; the first one prints."""
    where = array.device if isinstance(array, Tensor) else "the host's memory"
    kind = f"{type(array).__module__}.{type(array).__name__}"
    first = array.ravel()[0].item()
    line = f"{where}: {kind}, {array.dtype}, {tuple(array.shape)}, the first number is {first:.15g}"
    lines: list[str] | None = [""] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(line, lines)
    if lines is not None:
        print(f"{what}:")
        for rank, line in enumerate(lines):
            print(f"    rank {rank}, {line}")


def print_fit(params: Params, losses: np.ndarray) -> None:
    """Print the loss before every 200th update and before the last, and the line after all of them."""
    for step in sorted({*range(0, len(losses), 200), len(losses) - 1}):
        print(f"step {step:4}: loss {losses[step]:.15g}")
    print(f"after {len(losses)} steps: weight {params.weight.item():.15g}, bias {params.bias.item():.15g}")


def plot_fit(points: Points, params: Params, path: Path) -> None:
    """Draw the points, the line they are from and the line that was found."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.add_subplot(xlabel="x", ylabel="y", title="A line through points, in PyTorch")
    ends = np.array([points.xs.min(), points.xs.max()])
    axes.scatter(points.xs, points.ys, s=10, color="grey", label="points")
    axes.plot(ends, SLOPE * ends + INTERCEPT, "k--", label=f"true: {SLOPE:.2f} x {INTERCEPT:+.2f}")
    weight, bias = params.weight.item(), params.bias.item()
    axes.plot(ends, weight * ends + bias, label=f"found: {weight:.2f} x {bias:+.2f}")
    axes.legend()
    figure.savefig(path)


# %% The run


def run(rank: int, replicas: int, steps: int, plot: Path | None, rendezvous: str) -> None:
    """All of it, on one rank of several: the arrays before, the updates, the arrays after, the fit."""
    device = where_to_run(rank, replicas)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = dist.get_default_backend_for_device(device)  # gloo on the CPU
    dist.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=replicas)

    points, params = draw_points(seed=0), init_params(seed=0)
    describe("xs, drawn", points.xs)
    describe("weight, drawn", params.weight)

    shard, model = split(points, device), replicate(params, device)
    describe("xs, split", shard.xs)
    describe("weight, replicated", model.module.weight)

    losses = train(model, shard, steps)
    describe("weight, updated in place", model.module.weight)
    describe("gradient of the weight, the mean of all ranks'", model.module.weight.grad)

    params = one_copy(model)
    describe("weight, one copy", params.weight)
    if rank == 0:
        print_fit(params, losses)
        if plot is not None:
            plot_fit(points, params, plot)
    # The model holds the group, whose threads let go of tensors: while Python is whole, or it may abort at its end.
    del model
    gc.collect()
    dist.destroy_process_group()


def main() -> None:
    """Read the options, and start one process for each replica, unless torchrun has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2, help="ranks to train on; torchrun's own come first")
    parser.add_argument("--steps", type=int, default=1000, help="updates (default: 1000)")
    parser.add_argument("--plot", type=Path, help="draw the fit into this file")
    options = parser.parse_args()
    launched = dist.is_torchelastic_launched()
    replicas = int(os.environ["WORLD_SIZE"]) if launched else options.replicas
    if options.steps < 1 or replicas < 1 or POINTS % replicas:
        parser.error(f"at least one step; as many replicas as divide {POINTS} points evenly (D8)")

    if launched:
        run(int(os.environ["RANK"]), replicas, options.steps, options.plot, "env://")
        return
    with tempfile.TemporaryDirectory() as folder:  # the ranks meet at a file in it: no port has to be free
        rendezvous = (Path(folder) / "ranks").as_uri()
        torch.multiprocessing.spawn(run, (replicas, options.steps, options.plot, rendezvous), nprocs=replicas)


if __name__ == "__main__":
    main()
