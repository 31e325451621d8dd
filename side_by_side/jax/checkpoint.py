"""Checkpoints in JAX: everything that the next step needs, in a folder of Orbax. Alone, to see it:

    python -m side_by_side.jax.checkpoint

Otherwise a run needs only its config: the order of the samples and the keys of dropout are functions of the seed and
the step.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.tree_util import keystr

from port.errors import BrokenWeights, PortError, UsageError, WeightsMismatch

SUFFIX = ".checkpoint"


# %% Saving
def save_checkpoint(path: Path, step: int, state: Any) -> None:
    """Save what ``step``, the next one, needs; it replaces an earlier checkpoint.

    The step's folder is there whole or not at all, and the earlier one goes after that: a process that is killed in
    here leaves one of the two. Of several processes one saves: it waits for no other.

    Args:
        path: the folder; it is created if it is missing.
        step: the number of steps made.
        state: any tree of arrays, each whole on this process: the parameters, the running statistics, the optimizer's
            state. The learning rate is a function of the step.
    """
    path.mkdir(parents=True, exist_ok=True)
    with opened(path, to_save=True) as manager:
        if step in manager.all_steps():  # of an earlier run, which this one replaces
            manager.delete(step)
        manager.save(step, args=ocp.args.StandardSave(jax.device_get(state)), force=True)


# %% Restoring
def latest_step(path: Path, *, together: bool = False) -> int | None:
    """The step at which the checkpoint at ``path`` resumes; None if there is none."""
    if not path.is_dir():
        return None
    with opened(path, together=together) as manager:
        return manager.latest_step()


def restore_checkpoint(path: Path, like: Any, *, together: bool = False) -> tuple[int, Any]:
    """Load the checkpoint into the tree of ``like``, a state made as for a new run, with its dtypes and devices.

    Args:
        path: the folder.
        like: of a sharded array only this process's part is read.
        together: whether all processes call this, and wait for one another.

    Returns:
        The next step, and the state.

    Raises:
        UsageError: there is no checkpoint at ``path``.
        BrokenWeights: the checkpoint is invalid, or incomplete.
        WeightsMismatch: the checkpoint is of another model or optimizer; names what differs.
    """
    step = latest_step(path, together=together)
    if step is None:
        raise UsageError(f"there is no checkpoint at {path}: pass the path of the existing run, or start a new run")
    try:
        with opened(path, together=together) as manager:
            metadata = manager.item_metadata(step)
            if metadata is None:
                raise BrokenWeights(f"{path} cannot be read as a checkpoint: the list of its arrays is missing")
            check_fit(path, contents_of(metadata.tree), contents_of(like))
            # Without a tree to restore into, Orbax would give dicts and lists for every tuple.
            abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
            return step, manager.restore(step, args=ocp.args.StandardRestore(abstract))
    except PortError:
        raise
    except Exception as error:  # Orbax raises what its parts raise, of many kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise BrokenWeights(f"{path} cannot be read as a checkpoint: {reason[0][:200]}") from error


def opened(path: Path, *, to_save: bool = False, together: bool = False) -> ocp.CheckpointManager:
    """Orbax's manager of the folder, in which this process is alone: else each call would wait for the others."""
    whose = {"primary_host": jax.process_index(), "active_processes": {jax.process_index()}}
    processes = ocp.options.MultiprocessingOptions(**({} if together else whose))
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1,
        create=False,
        cleanup_tmp_directories=to_save,  # left by a kill; not while another process may be saving
        enable_async_checkpointing=False,
        multiprocessing_options=processes,
    )
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=processes)
    return ocp.CheckpointManager(path.absolute(), options=options, item_handlers=handler)


# %% What fits
def contents_of(state: Any) -> dict[str, str]:
    """What to save, by name. A schedule has no state: it is a function of the step."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {keystr(path, simple=True, separator="."): f"{leaf.dtype} {tuple(leaf.shape)}" for path, leaf in leaves}


def check_fit(path: Path, saved: dict[str, str], wanted: dict[str, str]) -> None:
    differing = [name for name in sorted(saved.keys() | wanted.keys()) if saved.get(name) != wanted.get(name)]
    if differing:
        described = [
            f"{name} is {saved.get(name, 'missing')}, here {wanted.get(name, 'missing')}" for name in differing
        ]
        more = f"; and {len(described) - 10} more" if len(described) > 10 else ""
        raise WeightsMismatch(f"{path} is the checkpoint of another run: it has {'; '.join(described[:10])}{more}")


# %% Saving, and resuming


def main() -> None:
    """Six updates, and three that resume from a checkpoint of the first three: the same weights, bit for bit."""
    jax.config.update("jax_enable_x64", True)
    optimizer = optax.adam(0.1)

    def begin() -> tuple[Any, optax.OptState]:
        numbers = np.random.default_rng(0).standard_normal((2, 3))
        params = {"kernel": jnp.array(numbers.T), "bias": jnp.zeros(2)}  # torch's weight is (2, 3): W1
        return params, optimizer.init(params)

    @jax.jit
    def update(state: tuple[Any, optax.OptState], x: jax.Array) -> tuple[Any, optax.OptState]:
        params, moments = state
        gradients = jax.grad(lambda params: jnp.square(x @ params["kernel"] + params["bias"]).mean())(params)
        updates, moments = optimizer.update(gradients, moments)
        return optax.apply_updates(params, updates), moments

    def drawn(step: int) -> np.ndarray:
        return np.random.default_rng(step).standard_normal((4, 3))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        whole = begin()
        for step in range(6):
            if step == 3:
                save_checkpoint(path, step, whole)
            whole = update(whole, drawn(step))
        first, resumed = restore_checkpoint(path, like=begin())
        for step in range(first, 6):
            print(f"step {step}, resumed from {latest_step(path)}")
            resumed = update(resumed, drawn(step))

    kernel = whole[0]["kernel"]
    print("weight", *(f"{value:.12f}" for value in kernel.T.flatten().tolist()))
    print("the same bits:", jnp.array_equal(kernel, resumed[0]["kernel"]))


if __name__ == "__main__":
    main()
