"""An nnx module's weights, under the names and in the layouts of its torch twin. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping as Arrays
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from port.errors import WeightsMismatch
from port.pairs import dotted, mapping_from_flax


def arrays_of(module: nnx.Module) -> dict[str, np.ndarray]:
    """The module's parameters and running statistics as a torch state dict of numpy arrays."""
    weights = {dotted(path): np.asarray(weight[...]) for path, weight in _weights(module)}
    return mapping_from_flax(module).inverse()(weights)


def fill(module: nnx.Module, arrays: Arrays[str, np.ndarray]) -> None:
    """Put a torch state dict's arrays into the module, in place, each in the dtype that the module has there.

    Raises:
        WeightsMismatch: missing, unexpected or mis-shaped keys: all of them in one message; nothing is filled.
    """
    mapping = mapping_from_flax(module)
    shapes = {dotted(path): weight.shape for path, weight in _weights(module)}
    complaints = mapping.complaints(arrays)
    for entry in sorted(mapping.entries, key=lambda entry: entry.source):
        # The shape in torch's layout, of an array without memory.
        needed = entry.inverse()(np.broadcast_to(0, shapes[entry.target])).shape
        if entry.source in arrays and arrays[entry.source].shape != needed:
            given = arrays[entry.source].shape
            complaints.append(f"{entry.source} of shape {given}, the model's {entry.target} takes {needed}")
    if complaints:
        raise WeightsMismatch("the weights do not fit the model:\n  " + "\n  ".join(complaints))
    moved = mapping(arrays)
    # Copies: `jnp.asarray` would let the module share the caller's memory.
    filled = [(path, jnp.array(moved[dotted(path)], dtype=weight.dtype)) for path, weight in _weights(module)]
    nnx.update(module, nnx.from_flat_state(filled))


def _weights(module: nnx.Module) -> list[tuple[tuple[Any, ...], Any]]:
    """Every path and its variable, or its array where a module holds a bare one."""
    return list(nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState))))
