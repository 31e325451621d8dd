"""A line through points, data parallel: `pmap` in JAX. It runs alone, in seconds, on any machine:

    python -m side_by_side.jax.linear_regression --replicas 2 --plot fit.png

Its twin, with DistributedDataParallel, prints the same losses and the same line:

    port diff linear_regression
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SLOPE, INTERCEPT, NOISE = 2.0, -1.0, 0.5
POINTS = 128
LEARNING_RATE = 0.005

# %% The points, the params and the loss


class Points(NamedTuple):
    """Inputs and targets, both (N, 1); split over the devices, both (devices, N / devices, 1)."""

    xs: jax.Array | np.ndarray
    ys: jax.Array | np.ndarray


class Params(NamedTuple):
    """The line y = weight · x + bias, both (). A NamedTuple is a pytree: jax.grad and jax.tree.map see its leaves."""

    weight: jax.Array | np.ndarray
    bias: jax.Array | np.ndarray


def draw_points(seed: int) -> Points:
    """The line y = 2x − 1 with normal noise of standard deviation 0.5, float64."""
    generator = np.random.default_rng(seed)
    xs, noise = generator.normal(size=(2, POINTS, 1))
    return Points(xs, SLOPE * xs + INTERCEPT + NOISE * noise)


def init_params(seed: int) -> Params:
    """The line to begin with: both numbers from N(0, 1), float64."""
    weight, bias = np.random.default_rng([seed, 1]).normal(size=2)
    return Params(np.array(weight), np.array(bias))


def loss_fn(params: Params, points: Points) -> jax.Array:
    """The mean squared error, ()."""
    predictions = params.weight * points.xs + params.bias
    return ((predictions - points.ys) ** 2).mean()


# %% On to the replicas, and back


def where_to_run(replicas: int) -> Mesh:
    """Accelerators, if there are enough of them, else devices of the CPU. One process drives them all."""
    devices = jax.devices() if len(jax.devices()) >= replicas else jax.devices("cpu")
    return Mesh(np.array(devices[:replicas]), ("replicas",))


def split(points: Points, mesh: Mesh) -> Points:
    """One row for each device, of one block of the points: (devices, N / devices, 1)."""
    shards = [np.stack(np.split(array, mesh.size)) for array in points]
    return Points(*jax.device_put(shards, NamedSharding(mesh, PartitionSpec("replicas"))))


def replicate(params: Params, mesh: Mesh) -> Params:
    """One row for each device, all equal: (devices,)."""
    copies = [np.stack([array] * mesh.size) for array in params]
    return Params(*jax.device_put(copies, NamedSharding(mesh, PartitionSpec("replicas"))))


def one_copy(params: Params) -> Params:
    """The first device's own row, both ().

    `array[0]` gives the same numbers, but it is a gather: all devices compute it, and all hold the result (D13).
    """
    return jax.tree.map(lambda array: array.addressable_data(0).squeeze(0), params)


# %% An update, and a thousand of them


def update(params: Params, points: Points) -> tuple[Params, jax.Array]:
    """On one device, with its copy and its shard, both without the device axis: new params, and the loss of all, ().

    Each device takes the gradient of its own loss; then all take the mean of these gradients. The other way round,
    `grad(pmean(loss))`, leaves each with a gradient of its own, and the copies part without an error (D3). Under
    `shard_map`, with its default check_vma=True, that other way is the right one (D2).
    """
    loss, gradients = jax.value_and_grad(loss_fn)(params, points)
    loss, gradients = jax.lax.pmean((loss, gradients), axis_name="replicas")
    return jax.tree.map(lambda param, gradient: param - LEARNING_RATE * gradient, params, gradients), loss


def train(params: Params, points: Points, mesh: Mesh, steps: int) -> tuple[Params, np.ndarray]:
    """Replicated params, split points → the params after some updates, the loss before each, (steps,).

    The params given are donated: their memory holds the new ones.
    """
    # pmap is jit and shard_map since jax 0.8, and in maintenance mode (D1): new code says jit and shardings. The params
    # come back with a device axis, as the next update takes them; None asks for one loss without it.
    devices = list(mesh.devices)
    update_all = jax.pmap(update, axis_name="replicas", devices=devices, out_axes=(0, None), donate_argnums=0)
    losses = []
    for _ in range(steps):
        params, loss = update_all(params, points)
        if devices[0].platform == "cpu":
            # The CPU's devices share a few threads. With many updates under way, all of these may be held by devices
            # that wait in an all-reduce for one that gets no thread: for ever. Seen with jax 0.10.2, two cores and
            # four devices. Accelerators may run ahead.
            loss.block_until_ready()
        losses.append(loss)
    return params, np.array(jax.device_get(losses))


# %% What is printed and drawn


def describe(what: str, array: jax.Array | np.ndarray) -> None:
    """Print what type an array has and where each part of it lives."""
    if isinstance(array, np.ndarray):
        print(f"{what}: numpy.ndarray, {array.dtype}, {array.shape}, in the host's memory")
        return
    print(f"{what}: jax.Array, {array.dtype}, {array.shape}, {array.sharding}")
    for shard in array.addressable_shards:
        device = f"{shard.device.platform}:{shard.device.id}"
        print(f"    on {device}: {shard.data.shape}, the first number is {shard.data.ravel()[0]:.15g}")


def print_fit(params: Params, losses: np.ndarray) -> None:
    """Print the loss before every 200th update and before the last, and the line after all of them."""
    for step in sorted({*range(0, len(losses), 200), len(losses) - 1}):
        print(f"step {step:4}: loss {losses[step]:.15g}")
    print(f"after {len(losses)} steps: weight {params.weight.item():.15g}, bias {params.bias.item():.15g}")


def plot_fit(points: Points, params: Params, path: Path) -> None:
    """Draw the points, the line they are from and the line that was found."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.add_subplot(xlabel="x", ylabel="y", title="A line through points, in JAX")
    ends = np.array([points.xs.min(), points.xs.max()])
    axes.scatter(points.xs, points.ys, s=10, color="grey", label="points")
    axes.plot(ends, SLOPE * ends + INTERCEPT, "k--", label=f"true: {SLOPE:.2f} x {INTERCEPT:+.2f}")
    weight, bias = params.weight.item(), params.bias.item()
    axes.plot(ends, weight * ends + bias, label=f"found: {weight:.2f} x {bias:+.2f}")
    axes.legend()
    figure.savefig(path)


# %% The run


def run(replicas: int, steps: int, plot: Path | None) -> None:
    """The whole run, from one process: the arrays before, the updates, the arrays after, the fit."""
    points, params = draw_points(seed=0), init_params(seed=0)
    describe("xs, drawn", points.xs)
    describe("weight, drawn", params.weight)

    mesh = where_to_run(replicas)
    shards, replicated = split(points, mesh), replicate(params, mesh)
    describe("xs, split", shards.xs)
    describe("weight, replicated", replicated.weight)

    replicated, losses = train(replicated, shards, mesh, steps)
    describe("weight, updated", replicated.weight)

    params = one_copy(replicated)
    describe("weight, one copy", params.weight)
    print_fit(params, losses)
    if plot is not None:
        plot_fit(points, params, plot)


def main() -> None:
    """Read the options, and see to it that there are devices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2, help="devices to train on (default: 2)")
    parser.add_argument("--steps", type=int, default=1000, help="updates (default: 1000)")
    parser.add_argument("--plot", type=Path, help="draw the fit into this file")
    options = parser.parse_args()
    if options.steps < 1 or options.replicas < 1 or POINTS % options.replicas:
        parser.error(f"at least one step; as many replicas as divide {POINTS} points evenly (D8)")

    # Both before the first array: a backend that has started keeps its number of devices (D9). Accelerators are not
    # touched by this.
    jax.config.update("jax_num_cpu_devices", options.replicas)
    jax.config.update("jax_enable_x64", True)
    run(options.replicas, options.steps, options.plot)


if __name__ == "__main__":
    main()
