"""Gradient accumulation in JAX: a batch of 64 in microbatches of 4. Alone, and to measure the table below again:

    python -m side_by_side.jax.accumulate
    python -m side_by_side.jax.accumulate --table

Do the tree functions modify? No. jax.tree.map returns a new tree and arrays never change: take what it returns.
`wrong` below drops it, and updates with its first microbatch alone.

Is it slow, and why? Compiling is, if a Python loop is jitted: it runs while tracing, so the program holds the network
k times. Here it also takes more memory than the whole batch.

fori_loop instead of for? Yes, or rather scan, which hands out the microbatches: one copy of the network, compiled in
the same time whatever k is, and memory that falls with the microbatch. A for around one jitted microbatch is right too
(multi_steps): it costs a launch for each.

vmap instead of either? No. It compiles fast, but holds all microbatches and k gradients at once: more than the whole
batch, which is what accumulation is there to avoid.

Seconds to compile, milliseconds to run, MB of temporary memory:

    k                           4                   16                   64                   256
    whole        0.68  1.4   4.38     0.63  1.3   4.38     0.63  1.2   4.38      0.62  1.3   4.38
    unrolled     1.59  2.3   4.52     6.08  1.4   4.69    15.48  4.2   5.71     51.66 13.9  13.10
    fori_loop    0.92  1.2   1.67     0.81  1.2   0.43     0.79  1.7   0.12      0.78  3.7   0.06
    scan         0.86  1.2   1.67     0.80  1.1   0.43     0.81  1.6   0.12      0.85  5.1   0.06
    vmap         0.70  1.8   6.38     0.64  1.6   6.38     0.43  1.6   6.38      0.31  3.3  14.68
    multi_steps  0.36  3.3   1.14     0.45  3.8   0.34     0.32  6.4   0.13      0.45 24.1   0.09

A batch of 1,024, 256 hidden units, float64, on a shared 2-core CPU, jax 0.10.2. multi_steps compiles one microbatch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, PartitionSpec

from port.nn import BatchNorm

FEATURES, CLASSES, LR = 24, 10, 0.1
KS = (4, 16, 64, 256)
Model = tuple[nnx.GraphDef, nnx.State, nnx.State]  # what nnx.split gives: structure, params, running statistics
Batch = tuple[jax.Array, jax.Array]  # x (N, 24) and labels (N,)
Accumulated = tuple[jax.Array, nnx.State, nnx.State]  # mean loss, its gradients, running statistics afterwards


# %% A small model, with batch statistics or without


class Net(nnx.Module):
    """24 → hidden → 10, with BatchNorm between or without."""

    def __init__(self, hidden: int, batch_norm: bool) -> None:
        options: Any = {"kernel_init": nnx.initializers.zeros, "param_dtype": float, "rngs": nnx.Rngs(0)}
        self.fc1 = nnx.Linear(FEATURES, hidden, **options)
        self.norm = BatchNorm(hidden, param_dtype=float) if batch_norm else None
        self.fc2 = nnx.Linear(hidden, CLASSES, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.fc1(x)
        x = x if self.norm is None else self.norm(x)
        return self.fc2(jax.nn.relu(x))


def build(hidden: int = 32, *, batch_norm: bool = False) -> Model:
    """Build it with weights drawn by numpy, the same on both sides; float64 under x64."""
    graphdef, params, stats = nnx.split(Net(hidden, batch_norm), nnx.Param, ...)  # type: ignore[misc]
    random = np.random.default_rng(0)
    for layer in (params.fc1, params.fc2):
        layer.kernel[...] = jnp.asarray(random.normal(size=layer.kernel.shape) / 5)
        layer.bias[...] = jnp.asarray(random.normal(size=layer.bias.shape) / 5)
    return graphdef, params, stats


def draw_batch(size: int = 64) -> Batch:
    """Draw x and labels, the same on both sides."""
    random = np.random.default_rng(1)
    return jnp.asarray(random.normal(size=(size, FEATURES))), jnp.asarray(random.integers(0, CLASSES, size))


# %% The whole batch at once


def loss_fn(params: nnx.State, model: Model, batch: Batch) -> tuple[jax.Array, nnx.State]:
    """The mean over the samples, and the new running statistics."""
    graphdef, _, stats = model
    merged = nnx.merge(graphdef, params, stats, copy=True)
    loss = optax.softmax_cross_entropy_with_integer_labels(merged(batch[0]), batch[1]).mean()
    return loss, nnx.state(merged, nnx.Not(nnx.Param))


def gradient(model: Model, batch: Batch) -> Accumulated:
    """The gradient of one microbatch, or of any batch."""
    (loss, stats), gradients = jax.value_and_grad(loss_fn, has_aux=True)(model[1], model, batch)
    return loss, gradients, stats


def split(batch: Batch, k: int) -> Batch:
    """(N, …) → (k, N / k, …). Only for parts of equal size is the mean of their means the mean of the whole."""
    return jax.tree.map(lambda array: array.reshape(k, -1, *array.shape[1:]), batch)


def whole(model: Model, batch: Batch, k: int = 1) -> Accumulated:
    """The result that each form below must match."""
    return gradient(model, batch)


# %% The tempting wrong version


def add_(total: nnx.State, more: nnx.State) -> nnx.State:
    """torch's add_, as one hopes. WRONG: tree.map modifies nothing; the sum is dropped."""
    jax.tree.map(jnp.add, total, more)
    return total


def div_(total: nnx.State, divisor: int) -> nnx.State:
    """torch's div_, as one hopes. WRONG for the same reason."""
    jax.tree.map(lambda leaf: leaf / divisor, total)
    return total


def wrong(model: Model, batch: Batch, k: int) -> Accumulated:
    """Updates with the first microbatch alone; and with add_ and div_ put right it would still mix sum and mean."""
    first, *others = zip(*split(batch, k), strict=True)
    loss, gradients, stats = gradient(model, first)
    for part in others:
        more_loss, more, stats = gradient((*model[:2], stats), part)
        loss += more_loss  # this one adds: it makes a new array and gives it the name
        add_(gradients, more)
    div_(gradients, len(batch[0]))  # each of the k is a mean already: divide their sum by k, not by the samples
    return loss / len(batch[0]), gradients, stats


# %% A Python loop


def start(model: Model) -> Accumulated:
    """Nothing accumulated yet."""
    return jnp.zeros(()), jax.tree.map(jnp.zeros_like, model[1]), model[2]


def add(total: Accumulated, model: Model, part: Batch) -> Accumulated:
    """Add one microbatch to the total, a new value; running statistics pass from each microbatch to the next."""
    loss, gradients, stats = total
    more_loss, more, stats = gradient((*model[:2], stats), part)
    return loss + more_loss, jax.tree.map(jnp.add, gradients, more), stats


def mean(total: Accumulated, k: int) -> Accumulated:
    """The sum of k means, divided once: what loss / k in each microbatch comes to."""
    loss, gradients, stats = total
    return loss / k, jax.tree.map(lambda leaf: leaf / k, gradients), stats


def unrolled(model: Model, batch: Batch, k: int) -> Accumulated:
    """Right. Under jit the loop runs while tracing, and the program holds the network k times."""
    total = start(model)
    for part in zip(*split(batch, k), strict=True):
        total = add(total, model, part)
    return mean(total, k)


# %% A loop inside the compiled program


def fori_loop(model: Model, batch: Batch, k: int) -> Accumulated:
    """By index; the program contains the network once, and each round reuses the memory of the last."""
    xs, ys = split(batch, k)
    return mean(jax.lax.fori_loop(0, k, lambda i, total: add(total, model, (xs[i], ys[i])), start(model)), k)


def scan(model: Model, batch: Batch, k: int) -> Accumulated:
    """Over the microbatches themselves, no index to get wrong. The one to write."""
    total, _ = jax.lax.scan(lambda total, part: (add(total, model, part), None), start(model), split(batch, k))
    return mean(total, k)


# %% All microbatches at once


def vmap(model: Model, batch: Batch, k: int) -> Accumulated:
    """Right except for running statistics, updated once instead of k times; and k gradients are alive at once."""
    parts = jax.vmap(gradient, in_axes=(None, 0))(model, split(batch, k))
    return jax.tree.map(lambda leaf: leaf.mean(0).astype(leaf.dtype), parts)


# %% An optimizer step every k-th microbatch


@partial(jax.jit, static_argnames="optimizer", donate_argnames=("model", "opt_state"))
def micro_step(
    model: Model, part: Batch, optimizer: optax.MultiSteps, opt_state: optax.OptState
) -> tuple[Model, optax.OptState]:
    """One microbatch; the updates are zeros except in every k-th call."""
    graphdef, params, _ = model
    _, gradients, stats = gradient(model, part)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return (graphdef, optax.apply_updates(params, updates), stats), opt_state


def multi_steps(model: Model, batch: Batch, k: int, optimizer: optax.MultiSteps) -> Model:
    """The model after one update. MultiSteps averages itself (O18), and in float32 by default:

    optax.MultiSteps(optax.sgd(LR), k, accumulator_dtype=float), made under x64, keeps float64.
    """
    model = jax.tree.map(jnp.copy, model)  # micro_step donates its arguments' buffers
    opt_state = optimizer.init(model[1])
    for part in zip(*split(batch, k), strict=True):
        model, opt_state = micro_step(model, part, optimizer, opt_state)
    return model


# %% Several replicas, one all-reduce an update


def data_parallel(model: Model, batch: Batch, k: int, *, sync_every: bool = False) -> Accumulated:
    """Each replica accumulates over its share, in k microbatches; for models without batch statistics.

    In shard_map the gradient by replicated params is summed over the replicas automatically (D2), here in every round.
    Cast to varying, each replica's params have a gradient of their own, until pmean: that is torch's no_sync().
    """
    graphdef, params, stats = model
    mesh = jax.make_mesh((jax.device_count(),), ("replica",), axis_types=(AxisType.Auto,))
    everywhere, rows = PartitionSpec(), PartitionSpec("replica")

    @partial(jax.shard_map, mesh=mesh, in_specs=(everywhere, rows), out_specs=everywhere)
    def replica(params: nnx.State, batch: Batch) -> tuple[jax.Array, nnx.State]:
        if not sync_every:
            params = jax.lax.pcast(params, "replica", to="varying")

        def add(total: nnx.State, part: Batch) -> tuple[nnx.State, jax.Array]:
            loss, more, _ = gradient((graphdef, params, stats), part)
            return jax.tree.map(jnp.add, total, more), loss

        total, losses = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), split(batch, k))
        gradients = jax.tree.map(lambda leaf: leaf / k, total)
        if sync_every:  # summed over the replicas already
            gradients = jax.tree.map(lambda leaf: leaf / mesh.size, gradients)
        else:
            gradients = jax.lax.pmean(gradients, "replica")
        return jax.lax.pmean(losses.mean(), "replica"), gradients

    return *replica(params, batch), stats


# %% What it shows, and what it costs


def difference(ours: nnx.State, right: nnx.State) -> float:
    """The largest, over all parameters, relative to the largest number of the right ones."""
    largest = jax.tree.map(lambda a, b: (abs(a - b).max(), abs(b).max()), ours, right)
    apart, scale = jnp.array(jax.tree.leaves(largest)).reshape(-1, 2).max(0)
    return float(apart / scale)


def measure(form: Callable[..., Any], k: int) -> tuple[float, float, float]:
    """Seconds to compile, the least milliseconds of ten runs, MB of temporary memory; 1,024 samples, 256 hidden."""
    model, batch = build(256), draw_batch(1024)
    program: Any = jax.jit(form, static_argnames="k").lower
    arguments: tuple[Any, ...] = (model, batch, k)
    if form is multi_steps:  # a Python loop around one compiled microbatch
        optimizer = optax.MultiSteps(optax.sgd(LR), k, accumulator_dtype=float)
        part = jax.tree.map(lambda array: array[0], split(batch, k))
        program, arguments = micro_step.lower, (model, part, optimizer, optimizer.init(model[1]))
    begin = time.perf_counter()
    compiled = program(*arguments).compile()
    compiling = time.perf_counter() - begin
    run = partial(multi_steps, model, batch, k, optimizer) if form is multi_steps else partial(compiled, model, batch)
    jax.block_until_ready(run())
    running = []
    for _ in range(10):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        running.append(time.perf_counter() - begin)
    return compiling, 1e3 * min(running), compiled.memory_analysis().temp_size_in_bytes / 1e6


def table() -> None:
    """A row a form, a column a k."""
    print(f"{'k':12}" + "".join(f"{k:>24}" for k in KS))
    for form in (whole, unrolled, fori_loop, scan, vmap, multi_steps):
        cells = ("{:7.2f} s {:4.1f} ms {:5.2f} MB".format(*measure(form, k)) for k in KS)
        print(f"{form.__name__:12}" + "".join(cells))


def main() -> None:
    """Each form against the whole batch."""
    batch, k = draw_batch(), 16
    for batch_norm in (False, True):
        model = build(batch_norm=batch_norm)
        right = whole(model, batch)[1]
        print(f"distance from the whole batch's gradient, {'with' if batch_norm else 'without'} batch statistics")
        for form in (wrong, unrolled, fori_loop, scan, vmap, data_parallel)[: 5 if batch_norm else 6]:
            print(f"  {form.__name__:14}{difference(form(model, batch, k)[1], right):.1e}")
    model = build()
    right = jax.tree.map(lambda param, leaf: param - LR * leaf, model[1], whole(model, batch)[1])
    print("distance of the parameters after one update")
    for dtype in (float, jnp.float32):
        optimizer = optax.MultiSteps(optax.sgd(LR), k, accumulator_dtype=dtype)
        updated = multi_steps(model, batch, k, optimizer)[1]
        print(f"  multi_steps   {difference(updated, right):.1e}, accumulated in {jnp.dtype(dtype)}")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    table() if "--table" in sys.argv else main()
