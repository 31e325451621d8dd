"""Data parallelism in JAX: one process, and a part of the batch on each device. Alone:

    python -m side_by_side.jax.parallel --replicas 4

Its PyTorch twin prints the same numbers. Where there is no accelerator, the CPU is split into virtual devices.

Data parallelism gives every replica the whole model and a part of the batch, and averages the gradients. Model
parallelism gives every device a part of the model: some of the layers (pipeline), a slice of every matrix (tensor), or
a slice that is gathered when its turn comes (FSDP). It is for models that one device cannot hold. Synchronous training
waits for all replicas at each update, so that together they compute what one would on the whole batch. Loose training
does not wait: replicas use parameters that are some updates old (a parameter server), or average them now and then
(local SGD). That is another computation, and one device cannot check it. Here all is synchronous and data parallel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FEATURES, HIDDEN, SAMPLES = 3, 4, 5  # SAMPLES on each replica
LR, UPDATES = 0.1, 3


# %% Replicas


def start(replicas: int) -> None:
    """Set the number of devices before JAX's backend starts, not later. It overrides a count in XLA_FLAGS (D9)."""
    jax.config.update("jax_num_cpu_devices", replicas)  # of the CPU alone
    jax.config.update("jax_enable_x64", True)
    if jax.device_count() < replicas:
        sys.exit(f"JAX sees {jax.device_count()} device(s), not {replicas}; JAX_PLATFORMS=cpu takes virtual ones")


def draw(*shape: int, seed: int) -> np.ndarray:
    """float64 numbers that both sides have."""
    return np.random.default_rng(seed).normal(size=shape)


def by_replica(x: np.ndarray, replicas: int) -> np.ndarray:
    """(N, …) → (replicas, N / replicas, …), for pmap to map over the first axis."""
    return x.reshape(replicas, -1, *x.shape[1:])


def show(title: str, **results: Any) -> None:
    """Print what all replicas have alike."""
    print(f"# {title}")
    for name, numbers in results.items():
        print(f"{name}:", *(f"{number:.15g}" for number in np.ravel(numbers)))


def show_by_replica(title: str, **results: Iterable[Any]) -> None:
    """Print what each replica has: a result's first axis is the replica."""
    rows = {f"{name}, replica {r}": numbers for name, stacked in results.items() for r, numbers in enumerate(stacked)}
    show(title, **rows)


# %% A dot product on every replica


def dot_products(x: np.ndarray, y: np.ndarray) -> jax.Array:
    """(replicas, features) twice → (replicas,). The body sees (features,): the mapped axis is gone.

    pmap compiles by itself, at its first call; a jit around it adds nothing. Since jax 0.8 it is jit of shard_map, kept
    for old code (D1). Its result is one array spread over the devices. ``result[0]`` gathers it onto all of them;
    ``result.addressable_shards[0].data`` does not, nor does ``out_axes=None`` (D13).
    """
    return jax.pmap(jnp.dot)(x, y)


# %% What each replica gets


def parts(x: np.ndarray) -> dict[str, jax.Array]:
    """x (replicas, replicas), by each ``in_axes``; and what ``out_axes`` does.

    | in_axes | replica r gets | as out_axes                                                 |
    |---------|----------------|-------------------------------------------------------------|
    | 0       | x[r]           | the results, stacked along a new first axis                 |
    | 1       | x[:, r]        | along a new second axis                                     |
    | None    | x              | replica 0's result alone; nothing checks that the rest agree |
    """
    numbers = np.arange(len(x))  # pmap maps over at least one argument
    return {f"in_axes {axis}": jax.pmap(lambda _, part: part, in_axes=(0, axis))(numbers, x) for axis in (0, 1, None)}


# %% vmap inside pmap


def dots_of_samples(x: np.ndarray, w: np.ndarray) -> dict[str, jax.Array]:
    """x (replicas, samples, features), w (features,): each sample's dot product, and how far it is above their mean.

    Each map names its axis, and a collective says which of them it goes over.
    """

    def body(sample: jax.Array, w: jax.Array) -> dict[str, jax.Array]:
        dot = jnp.dot(sample, w)
        return {"above the mean": dot - jax.lax.pmean(dot, ("replica", "sample")), "dot": dot}

    on_a_replica = jax.vmap(body, in_axes=(0, None), axis_name="sample")
    return jax.pmap(on_a_replica, in_axes=(0, None), axis_name="replica")(x, w)


# %% Collectives


def collectives(x: np.ndarray) -> dict[str, jax.Array]:
    """x (replicas, features), a row on each: what each gets from the others. They return; nothing changes in place."""
    ring = [(replica, (replica + 1) % len(x)) for replica in range(len(x))]  # (from, to)

    def body(row: jax.Array) -> dict[str, jax.Array]:
        return {
            "all_gather": jax.lax.all_gather(row, "replica"),  # (replicas, features)
            "mean": jax.lax.pmean(row, "replica"),
            "ring": jax.lax.ppermute(row, "replica", ring),
            "sum": jax.lax.psum(row, "replica"),
        }

    return jax.pmap(body, axis_name="replica")(x)


# %% A mesh of devices


def make_mesh(replicas: int) -> Mesh:
    """The devices in a row, the row's axis named "replica".

    By default ``make_mesh`` makes Explicit axes: a sharding is part of an array's type, and shard_map refuses arrays
    that were not put on the mesh before (D4). Auto leaves shardings to the compiler.
    """
    return jax.make_mesh((replicas,), ("replica",), axis_types=(AxisType.Auto,), devices=jax.devices()[:replicas])


def make_mesh_the_older_way(replicas: int) -> Mesh:
    """In two steps: put the devices in an order that suits their wiring, then name the axes, which are Auto."""
    return Mesh(mesh_utils.create_device_mesh((replicas,), devices=jax.devices()[:replicas]), ("replica",))


# %% Sharded data


def shard(x: np.ndarray, mesh: Mesh) -> jax.Array:
    """One global array (N, features), its rows spread over the replicas. P() would put all of it on each."""
    return jax.device_put(x, NamedSharding(mesh, P("replica")))


# %% A model, its loss, some updates


class Net(nnx.Module):
    """features → hidden → 1."""

    def __init__(self) -> None:
        self.w1 = nnx.Param(jnp.asarray(draw(FEATURES, HIDDEN, seed=1)))
        self.w2 = nnx.Param(jnp.asarray(draw(HIDDEN, 1, seed=2)))

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ self.w1[...]) @ self.w2[...]


def loss_fn(params: nnx.State, graphdef: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean squared error over its samples: x (n, features), y (n, 1)."""
    return ((nnx.merge(graphdef, params)(x) - y) ** 2).mean()


def train(step: Callable[..., Any], params: nnx.State, x: Any, y: Any) -> tuple[nnx.State, jax.Array]:
    """The parameters after some updates, and the loss before each."""
    losses = []
    for _ in range(UPDATES):
        params, loss = step(params, x, y)
        losses.append(loss)
        jax.block_until_ready(loss)  # for virtual devices: with many updates under way their all-reduce can deadlock
    return params, jnp.stack(losses)


def descend(params: nnx.State, gradients: nnx.State) -> nnx.State:
    """SGD. Adam would hide gradients that are N times too large: it divides them by their own size."""
    return jax.tree.map(lambda param, gradient: param - LR * gradient, params, gradients)


# %% A train step: gradients averaged by hand


def train_averaging_gradients(model: Net, x: np.ndarray, y: np.ndarray, replicas: int) -> jax.Array:
    """pmap: a gradient is the replica's own, and their mean is the batch's."""
    graphdef, params = nnx.split(model)

    @partial(jax.pmap, axis_name="replica", in_axes=(None, 0, 0), out_axes=None, donate_argnums=0)
    def step(params: nnx.State, x: jax.Array, y: jax.Array) -> tuple[nnx.State, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_fn)(params, graphdef, x, y)
        loss, gradients = jax.lax.pmean((loss, gradients), "replica")
        return descend(params, gradients), loss

    params, losses = train(step, params, by_replica(x, replicas), by_replica(y, replicas))
    nnx.update(model, params)  # back into the model; from under in_axes=0 they would come with an axis of replicas
    return losses


# %% A train step: averaged in the backward pass


def train_averaging_in_backward(model: Net, x: np.ndarray, y: np.ndarray, replicas: int) -> jax.Array:
    """shard_map: the loss is averaged, and its gradient is the batch's.

    shard_map knows (check_vma=True) that params are the same on all replicas and that x and y vary. Where they meet,
    params are cast to varying, and the transpose of that cast is a psum: gradients of params come back summed. In the
    mean loss each replica counts 1 / N, so that the sum is the mean.
    """
    graphdef, params = nnx.split(model)

    @partial(jax.jit, donate_argnums=0)
    @partial(jax.shard_map, mesh=make_mesh(replicas), in_specs=(P(), P("replica"), P("replica")), out_specs=P())
    def step(params: nnx.State, x: jax.Array, y: jax.Array) -> tuple[nnx.State, jax.Array]:
        def mean_loss(params: nnx.State) -> jax.Array:
            return jax.lax.pmean(loss_fn(params, graphdef, x, y), "replica")

        loss, gradients = jax.value_and_grad(mean_loss)(params)
        return descend(params, gradients), loss

    params, losses = train(step, params, x, y)
    nnx.update(model, params)
    return losses


# %% A train step: written for the whole batch


def train_on_whole_batch(model: Net, x: np.ndarray, y: np.ndarray, replicas: int) -> jax.Array:
    """jit + NamedSharding: the step of one device. The compiler sees where its inputs lie and adds the collectives.

    BatchNorm's statistics are the whole batch's here, as SyncBatchNorm's. In the two forms above they are each
    replica's own, as in DDP (D5).
    """
    graphdef, params = nnx.split(model)

    @partial(jax.jit, donate_argnums=0)
    def step(params: nnx.State, x: jax.Array, y: jax.Array) -> tuple[nnx.State, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_fn)(params, graphdef, x, y)
        return descend(params, gradients), loss

    mesh = make_mesh(replicas)
    params = jax.device_put(params, NamedSharding(mesh, P()))
    params, losses = train(step, params, shard(x, mesh), shard(y, mesh))
    nnx.update(model, params)
    return losses


# %% Shards of uneven size


def uneven_shards(losses: np.ndarray, sizes: list[int]) -> dict[str, jax.Array]:
    """The loss of each sample (N,), of which replica r has n_r = sizes[r]. A mean of means is not the mean (D8).

    The weights n_r · R / N mend it. What holds for the loss holds for its gradient.
    """
    mask = np.arange(max(sizes)) < np.array(sizes)[:, None]  # (replicas, largest): a mapped axis has parts of one size
    padded = np.zeros(mask.shape)
    padded[mask] = losses

    def body(losses: jax.Array, mask: jax.Array) -> dict[str, jax.Array]:
        mean = jnp.where(mask, losses, 0).sum() / mask.sum()
        weight = mask.sum() * len(sizes) / sum(sizes)
        return jax.lax.pmean({"mean of means": mean, "weighted": weight * mean}, "replica")

    return {**jax.pmap(body, axis_name="replica", out_axes=None)(padded, mask), "whole": losses.mean()}


# %% What goes wrong


def traps(w: np.ndarray, x: np.ndarray, y: np.ndarray, replicas: int) -> dict[str, Iterable[jax.Array]]:
    """A gradient by w (features,) on every replica. The rewrite from pmap to shard_map, word for word, is wrong.

    Under shard_map, pmean of the gradient is N times too large: it was summed already, and the mean of what is the same
    everywhere changes nothing (D2). Under pmap, the gradient of pmean of the loss is each replica's own (D3). Neither
    says a word. ``jax.lax.pcast(w, "replica", to="varying")`` before the gradient gives shard_map pmap's meaning.
    """

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return ((x @ w - y) ** 2).mean()

    def mean_of_gradient(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.pmean(jax.grad(loss)(w, x, y), "replica")

    def gradient_of_mean(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.grad(lambda w: jax.lax.pmean(loss(w, x, y), "replica"))(w)

    specs = (P(), P("replica"), P("replica"))
    reduced_twice = jax.shard_map(mean_of_gradient, mesh=make_mesh(replicas), in_specs=specs, out_specs=P())
    never_reduced = jax.pmap(gradient_of_mean, axis_name="replica", in_axes=(None, 0, 0))
    return {
        "never reduced": never_reduced(w, by_replica(x, replicas), by_replica(y, replicas)),
        "reduced twice": [part.data for part in jax.jit(reduced_twice)(w, x, y).addressable_shards],
        "right": [jax.grad(loss)(jnp.asarray(w), x, y)] * replicas,
    }


# %% All of it


def lesson(replicas: int) -> None:
    """Print everything above, under its title."""
    start(replicas)
    x, y, w = draw(replicas, FEATURES, seed=3), draw(replicas, FEATURES, seed=4), draw(FEATURES, seed=5)
    show_by_replica("A dot product on every replica", dot=dot_products(x, y))
    show_by_replica("What each replica gets", **parts(draw(replicas, replicas, seed=6)))
    show_by_replica("vmap inside pmap", **dots_of_samples(draw(replicas, SAMPLES, FEATURES, seed=7), w))
    show_by_replica("Collectives", **collectives(x))
    meshes = {"make_mesh": make_mesh(replicas), "the older way": make_mesh_the_older_way(replicas)}
    show("A mesh of devices", **{way: [device.id for device in mesh.devices] for way, mesh in meshes.items()})

    x, y = draw(replicas * SAMPLES, FEATURES, seed=8), draw(replicas * SAMPLES, 1, seed=9)
    sharded = shard(x, make_mesh(replicas))
    show_by_replica("Sharded data", rows=[part.data for part in sharded.addressable_shards])
    jax.debug.visualize_array_sharding(sharded)
    for title, train_model in (
        ("gradients averaged by hand", train_averaging_gradients),
        ("averaged in the backward pass", train_averaging_in_backward),
        ("written for the whole batch", train_on_whole_batch),
    ):
        model = Net()
        losses = train_model(model, x, y, replicas)
        show(f"A train step: {title}", losses=losses, w1=model.w1[...], w2=model.w2[...])
    sizes = [2 * replica + 1 for replica in range(replicas)]
    show("Shards of uneven size", **uneven_shards(draw(sum(sizes), seed=10), sizes))
    show_by_replica("What goes wrong", **traps(w, x, y[:, 0], replicas))


def launch(lesson: Callable[[int], None], about: str | None) -> None:
    """Start a lesson on as many devices as are asked for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2, help="virtual devices where there is no accelerator")
    lesson(parser.parse_args().replicas)


if __name__ == "__main__":
    launch(lesson, __doc__)
