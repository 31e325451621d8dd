"""Fully sharded data parallelism in JAX: replicas share the state, too. Alone:

    python -m side_by_side.jax.fsdp --replicas 4

Its PyTorch twin prints the same numbers. `parallel.py` shows what data parallelism is.

Under pmap every replica holds all parameters, gradients and moments. Here it holds 1/N of each:

| | replicated | sharded |
|---|---|---|
| before a layer computes | nothing | all-gather of its parameters, where the compiler wants it |
| after its backward pass | all-reduce of its gradients | reduce-scatter; on a CPU, an all-reduce that is cut |
| the update | of everything, the same on every replica | of its part alone |
| the norm to clip by | of what the replica has | of all parts: under jit an array is whole |
| sent, for P parameters | about 2 P: an all-reduce scatters and gathers | as much, gathered once for both passes |
| held between two updates, under Adam | 4 P, by each of N | 4 P / N |
| held besides, within one | activations, gradients | and what is gathered, until the compiler lets go of it |

How much that is, `step.lower(…).compile().memory_analysis()` tells: of our MLP on four devices of a CPU, which gathers
all of it, 2.3 MB of temporaries against 2.4, and 0.9 MB of state against 3.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from side_by_side.jax.parallel import draw, launch, loss_fn, make_mesh, show, show_by_replica, start

FEATURES, HIDDEN, SAMPLES = 12, 24, 4  # SAMPLES on each replica
LR, UPDATES, CLIP = 0.1, 3, 0.5


# %% A model of two layers


class Layer(nnx.Module):
    """A matrix."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        self.w = nnx.Param(jnp.asarray(draw(rows, columns, seed=seed) / rows**0.5))

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.w[...]


class Net(nnx.Module):
    """features → hidden → 1."""

    def __init__(self) -> None:
        self.first = Layer(FEATURES, HIDDEN, seed=1)
        self.last = Layer(HIDDEN, 1, seed=2)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(jnp.tanh(self.first(x)))


# %% Who holds what


def shard(tree: Any, mesh: Mesh) -> Any:
    """The shardings that leave each device its rows of every array; a scalar is on all of them.

    `jax.device_put(tree, shard(tree, mesh))` lays it out so. Other axes may be cut, but one that the devices do not
    divide may not: torch gives some ranks a row more (D23).
    """
    return jax.tree.map(lambda x: NamedSharding(mesh, P("replica") if x.ndim else P()), tree)


def parts(params: Any) -> dict[str, list[jax.Array]]:
    """Each device's part of each."""
    return {name: [part.data for part in array.addressable_shards] for name, array in whole(params).items()}


def whole(params: Any) -> dict[str, Any]:
    """Each as one array, which it is, wherever it lies: looking at it gathers it."""
    return {"first.w": params["first"]["w"][...], "last.w": params["last"]["w"][...]}


# %% A train step


def train(
    model: Net, x: np.ndarray, y: np.ndarray, mesh: Mesh, *, clip: float = float("inf"), microbatches: int = 1
) -> dict[str, Any]:
    """Some updates by Adam: the loss and the gradients' norm before each, and the parameters after them."""
    graphdef, params = nnx.split(model)
    optimizer = optax.adam(LR)
    kept = shard(params, mesh), shard(jax.eval_shape(optimizer.init, params), mesh)
    by_microbatch = NamedSharding(mesh, P(None, "replica"))
    everywhere = NamedSharding(mesh, P())

    @partial(jax.jit, donate_argnums=0, in_shardings=(kept, by_microbatch, by_microbatch), out_shardings=(kept, None))
    def step(state: tuple[Any, Any], x: jax.Array, y: jax.Array) -> tuple[tuple[Any, Any], Any]:
        params, moments = state
        gathered = jax.lax.with_sharding_constraint(params, everywhere)  # the compiler would find out by itself
        loss, gradients = accumulate(gathered, graphdef, x, y, kept[0])
        norm = optax.tree.norm(gradients)
        gradients = jax.tree.map(lambda x: x * jnp.minimum(clip / (norm + 1e-6), 1.0), gradients)
        updates, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(params, updates), moments), (loss, norm)

    params = jax.device_put(params, kept[0])
    state = params, jax.jit(optimizer.init, out_shardings=kept[1])(params)  # by jit: no device ever holds all of it
    x, y = (each.reshape(microbatches, -1, each.shape[-1]) for each in (x, y))
    measured = []
    for _ in range(UPDATES):
        state, losses_and_norms = step(state, x, y)
        measured.append(jax.block_until_ready(losses_and_norms))
    losses, norms = np.transpose(measured)
    return {"losses": losses, "norms": norms, **whole(state[0])}


# %% Microbatches


def accumulate(params: Any, graphdef: Any, x: jax.Array, y: jax.Array, shardings: Any) -> tuple[jax.Array, Any]:
    """The mean loss of all samples, and its gradient, microbatch by microbatch: x (microbatches, n, features).

    What the scan carries is each device's part. Without the constraint inside, the compiler may sum gradients of all
    parameters on each device, and scatter after the last microbatch.
    """

    def add(total: Any, microbatch: Any) -> tuple[Any, None]:
        new = jax.value_and_grad(loss_fn)(params, graphdef, *microbatch)
        loss, gradients = jax.tree.map(lambda a, b: a + b / len(x), total, new)
        return (loss, jax.lax.with_sharding_constraint(gradients, shardings)), None

    nothing = jnp.zeros((), x.dtype), jax.lax.with_sharding_constraint(jax.tree.map(jnp.zeros_like, params), shardings)
    return jax.lax.scan(add, nothing, (x, y))[0]


# %% Bytes on a device


def bytes_on_a_device(model: Net, x: np.ndarray, y: np.ndarray, shardings: Any) -> dict[str, int]:
    """A device's bytes under Adam: parameters, their gradients (inside the step), and two moments of each."""
    graphdef, params = nnx.split(model)
    params = jax.device_put(params, shardings)
    gradients = jax.jit(jax.grad(loss_fn), static_argnums=1, out_shardings=shardings)(params, graphdef, x, y)
    moments = [jax.jit(lambda x: jax.tree.map(jnp.zeros_like, x), out_shardings=shardings)(params) for _ in range(2)]

    def count(arrays: Iterable[jax.Array]) -> int:
        return sum(array.addressable_shards[0].data.nbytes for array in arrays)

    return {
        "parameters": count(jax.tree.leaves(params)),
        "gradients": count(jax.tree.leaves(gradients)),
        "moments": count(jax.tree.leaves(moments)),
    }


# %% What goes wrong


def clipped(model: Net, x: np.ndarray, y: np.ndarray, mesh: Mesh) -> dict[str, dict[str, Any]]:
    """The gradients, clipped by the norm of all, and by each replica for itself: by its own part's norm (D25).

    Parts that are scaled by different factors are not the gradient of anything, and nothing warns. Under jit the norm
    is that of all parts. Inside shard_map an array is the device's part, and so is its norm: sum its square by psum.
    """
    clip = CLIP / 2
    graphdef, params = nnx.split(model)
    shardings = shard(params, mesh)
    gradients = jax.jit(jax.grad(loss_fn), static_argnums=1, out_shardings=shardings)(params, graphdef, x, y)

    @jax.jit
    def right(gradients: Any) -> tuple[Any, jax.Array]:
        norm = optax.tree.norm(gradients)
        return jax.tree.map(lambda x: x * jnp.minimum(clip / (norm + 1e-6), 1.0), gradients), norm

    by_rows = jax.tree.map(lambda sharding: sharding.spec, shardings)

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(by_rows,), out_specs=(by_rows, P("replica")))
    def wrong(gradients: Any) -> tuple[Any, jax.Array]:
        own = optax.tree.norm(gradients)
        return jax.tree.map(lambda x: x * jnp.minimum(clip / (own + 1e-6), 1.0), gradients), own[None]

    (gradients_right, total), (gradients_wrong, own) = right(gradients), wrong(gradients)
    norms = {"all": [total] * len(own), "own": own}
    return {"right": parts(gradients_right), "by its own norm": parts(gradients_wrong), "norm": norms}


# %% All of it


def lesson(replicas: int) -> None:
    """Print everything above, under its title."""
    start(replicas)
    mesh = make_mesh(replicas)
    x, y = draw(replicas * SAMPLES, FEATURES, seed=8), draw(replicas * SAMPLES, 1, seed=9)
    params = nnx.state(Net())
    show_by_replica("Who holds what", **parts(jax.device_put(params, shard(params, mesh))))
    show("A train step", **train(Net(), x, y, mesh))
    show("A train step, clipped", **train(Net(), x, y, mesh, clip=CLIP))
    show("A train step, in microbatches", **train(Net(), x, y, mesh, clip=CLIP, microbatches=2))
    for how, shardings in (("replicated", NamedSharding(mesh, P())), ("sharded", shard(params, mesh))):
        show(f"Bytes on a device, {how}", **bytes_on_a_device(Net(), x, y, shardings))
    for how, found in clipped(Net(), x, y, mesh).items():
        show_by_replica(f"What goes wrong: {how}", **found)


if __name__ == "__main__":
    launch(lesson, __doc__)
