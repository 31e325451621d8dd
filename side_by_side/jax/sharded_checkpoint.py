"""Sharded checkpoints in JAX: each process writes its own devices' part, in a folder of Orbax.

    python -m side_by_side.jax.sharded_checkpoint

No process gathers the state or reads more than its part, and another number of devices may resume: each reads its
part of what was written.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from side_by_side.jax import checkpoint
from side_by_side.jax.checkpoint import opened

SUFFIX = ".checkpoint"


# %% Saving
def save_checkpoint(path: Path, step: int, state: Any) -> None:
    """Save what ``step``, the next one, needs, replacing an earlier checkpoint. All processes call it.

    The step's folder has its name when all processes have written, and the earlier one goes after that: a process that
    is killed in here leaves one of the two.

    Args:
        path: the folder; it is created if it is missing.
        step: the number of steps made.
        state: any tree of sharded arrays: the parameters, the running statistics, the optimizer's state. The learning
            rate is a function of the step.
    """
    path.mkdir(parents=True, exist_ok=True)
    with opened(path, to_save=True, together=True) as manager:
        if step in manager.all_steps():  # of an earlier run, which this one replaces
            manager.delete(step)
        manager.save(step, args=ocp.args.StandardSave(state), force=True)


# %% Restoring
def latest_step(path: Path) -> int | None:
    """The step at which the checkpoint at ``path`` resumes; None if there is none."""
    return checkpoint.latest_step(path, together=True)


def restore_checkpoint(path: Path, like: Any) -> tuple[int, Any]:
    """Load the checkpoint into the tree of ``like``, a state made as for a new run, with its dtypes and shardings.

    Returns:
        The next step, and the state.

    Raises:
        UsageError: there is no checkpoint at ``path``.
        BrokenWeights: the checkpoint is invalid, or incomplete.
        WeightsMismatch: the checkpoint is of another model or optimizer; names what differs.
    """
    return checkpoint.restore_checkpoint(path, like, together=True)


# %% Saving, and resuming


def updates(devices: int, folder: str) -> None:
    """Six updates by two devices, and three that resume from their checkpoint of the first three; by two, or by one."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("fsdp",))
    path = Path(folder) / "checkpoint"
    optimizer = optax.adam(0.1)

    def sharding(x: jax.Array) -> NamedSharding:
        return NamedSharding(mesh, P(*[None] * (x.ndim - 1), "fsdp") if x.ndim else P())

    def begin() -> tuple[Any, optax.OptState]:
        numbers = np.random.default_rng(0).standard_normal((2, 3))
        params = {"kernel": jnp.array(numbers.T), "bias": jnp.zeros(2)}  # torch's weight is (2, 3): W1
        state = params, optimizer.init(params)
        return jax.device_put(state, jax.tree.map(sharding, state))

    @partial(jax.jit, out_shardings=jax.tree.map(sharding, jax.eval_shape(begin)))
    def update(state: tuple[Any, optax.OptState], x: jax.Array) -> tuple[Any, optax.OptState]:
        params, moments = state
        gradients = jax.grad(lambda params: jnp.square(x @ params["kernel"] + params["bias"]).mean())(params)
        updates, moments = optimizer.update(gradients, moments)
        return optax.apply_updates(params, updates), moments

    def drawn(step: int) -> jax.Array:
        numbers = np.random.default_rng(step).standard_normal((4, 3))
        return jax.device_put(numbers, NamedSharding(mesh, P("fsdp")))

    whole = begin()
    for step in range(6 if devices > 1 else 0):
        if step == 3:
            save_checkpoint(path, step, whole)
        whole = update(whole, drawn(step))
    first, resumed = restore_checkpoint(path, like=begin())
    for step in range(first, 6):
        resumed = update(resumed, drawn(step))
    kernel, kernel_resumed = (np.asarray(params["kernel"]) for params, _ in (whole, resumed))
    if devices > 1:
        print("the same bits:", np.array_equal(kernel, kernel_resumed))
    print(f"weight, resumed by {devices}:", *(f"{value:.12f}" for value in kernel_resumed.T.flatten().tolist()))


def main() -> None:
    """Two devices, and one."""
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        for devices in (2, 1):
            updates(devices, folder)


if __name__ == "__main__":
    main()
