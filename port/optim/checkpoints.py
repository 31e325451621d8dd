"""Saves an optax state in a file of Flax variables, beside the parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import WeightsMismatch
from port.transforms.paths import path_of
from port.weights.checkpoint import open_checkpoint
from port.weights.tensors import Tensor

COLLECTION = "opt_state"
"""The key of the optimizer's state in a file of Flax variables, beside ``params``."""


def state_tensors(opt_state: Any, step: int | None = None) -> list[Tensor]:
    """List an optax state as tensors of a file, under ``opt_state.…`` and its paths; and the step, as ``step``."""
    leaves = jax.tree_util.tree_leaves_with_path(opt_state)
    arrays = {f"{COLLECTION}.{path_of(keys)}": np.asarray(leaf) for keys, leaf in leaves}
    if step is not None:
        arrays["step"] = np.asarray(step, np.int32)
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]  # type: ignore[misc]


def load_opt_state(opt_state: Any, path: Path | str) -> Any:
    """Load an optax state from a file, with the structure of ``opt_state``.

    Args:
        opt_state: a fresh state of the transformation, ``optimizer.init(params)``.
        path: a file written by ``port convert --optimizer``.

    Raises:
        BrokenWeights: the file cannot be read.
        WeightsMismatch: the state is of another transformation: everything missing, unexpected and mis-shaped, in one
            message.
    """
    with open_checkpoint(path) as checkpoint:
        names = {
            name.removeprefix(f"{COLLECTION}.") for name in checkpoint.tensors if name.startswith(COLLECTION + ".")
        }
        leaves, treedef = jax.tree_util.tree_flatten_with_path(opt_state)
        wanted = {path_of(keys): leaf for keys, leaf in leaves}
        wrong = [f"missing: {name}" for name in sorted(set(wanted) - names)]
        wrong += [f"unexpected: {name}" for name in sorted(names - set(wanted))]
        for name in sorted(names & set(wanted)):
            shape = checkpoint.tensors[f"{COLLECTION}.{name}"].shape
            if shape != np.shape(wanted[name]):
                wrong.append(f"{name}: its shape is {shape}, expected {np.shape(wanted[name])}")
        if wrong:
            raise WeightsMismatch(f"{path}: the state is not this optimizer's:\n  " + "\n  ".join(wrong))
        values = [
            jnp.asarray(checkpoint.read(f"{COLLECTION}.{path_of(keys)}"), jnp.asarray(leaf).dtype)
            for keys, leaf in leaves
        ]
    return jax.tree_util.tree_unflatten(treedef, values)
