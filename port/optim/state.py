"""Fills an optax state with the contents of a torch optimizer: by the classes and fields of the states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from port.errors import WeightsMismatch
from port.pairs.optimizers import STEP, OptimizerPair
from port.transforms.lbfgs_state import TorchLbfgsState, lbfgs_state_from_torch
from port.transforms.paths import path_of

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Contents:
    """The contents for the state of one label.

    Attributes:
        pair: the optimizer's pair.
        numbers: torch's key → the count of steps, or one of the pair's scalars.
        arrays: torch's key → path of a parameter → array, in the layout of the parameters.
        place: how many updates its schedule has seen.
        rates: a plateau's field → its value.
        scalars: the dtype of the pair's scalars.
        memory: LBFGS's memory, in the order of the state.
    """

    pair: OptimizerPair
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Arrays] = field(default_factory=dict)
    place: int | None = None
    rates: dict[str, Any] = field(default_factory=dict)
    scalars: str = "float32"
    memory: dict[str, Any] = field(default_factory=dict)


def filled(state: Any, contents: dict[str, Contents], *, prefix: str = "") -> Any:
    """Fill the state with a torch optimizer's contents.

    Args:
        state: a fresh state of the transformation.
        contents: by label.
        prefix: the path before the parameters' paths.

    Raises:
        WeightsMismatch: an array has another shape than its target.
    """
    if len(contents) == 1:
        return _filled(state, next(iter(contents.values())), prefix)

    def visit(label: str, inner: Any) -> Any:
        return _filled(inner, contents[label], prefix) if label in contents else inner

    return _in_partitions(state, visit)


def _in_partitions(state: Any, visit: Callable[[str, Any], Any]) -> Any:
    if isinstance(state, optax.PartitionState):
        return state._replace(inner_states={label: visit(label, inner) for label, inner in state.inner_states.items()})
    return _inside(state, lambda inner: _in_partitions(inner, visit))


def _inside(state: Any, visit: Callable[[Any], Any]) -> Any:
    """Visit the direct parts of the state."""
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(visit, state))
    if isinstance(state, tuple | list):
        return type(state)(map(visit, state))
    if isinstance(state, dict):
        return {key: visit(value) for key, value in state.items()}
    return state


def _filled(state: Any, contents: Contents, prefix: str) -> Any:
    fields = contents.pair.state.get(type(state).__name__)
    if fields is not None:
        return state._replace(
            **{name: _field(name, key, getattr(state, name), contents, prefix) for name, key in fields.items()}
        )
    if isinstance(state, TorchLbfgsState):
        size, history = state.old_dirs.shape[1], len(state.old_dirs)
        return (
            lbfgs_state_from_torch(contents.memory, size=size, history_size=history, dtype=state.d.dtype)
            if contents.memory
            else state
        )
    if type(state).__name__ == "TorchPlateauState":
        rates = {name: _like(value, getattr(state, name)) for name, value in contents.rates.items()}
        return state._replace(**rates, inner_state=_filled(state.inner_state, contents, prefix))
    state = _inside(state, lambda inner: _filled(inner, contents, prefix))
    if contents.place is not None and "count" in getattr(state, "_fields", ()):
        state = state._replace(count=_like(contents.place, state.count))
    return state


def _field(name: str, key: str, fresh: Any, contents: Contents, prefix: str) -> Any:
    pair = contents.pair
    if name in pair.flags:
        return _like(bool(contents.arrays.get(pair.flags[name])), fresh)
    if key in pair.scalars:
        # torch stores them in its default dtype, for float64 parameters too, and its rounding is reproduced here.
        return jnp.asarray(contents.numbers.get(key, fresh), contents.scalars)
    if key == STEP:
        return _like(contents.numbers.get(key, 0), fresh)
    arrays = contents.arrays.get(key)
    if not arrays:
        return fresh

    def leaf(keys: Any, old: Any) -> Any:
        path = path_of(keys).removeprefix(prefix)
        if path not in arrays:
            return old
        if arrays[path].shape != old.shape:
            raise WeightsMismatch(f"{path}: torch's {key} has shape {arrays[path].shape}, expected {old.shape}")
        return _like(arrays[path], old)

    return jax.tree_util.tree_map_with_path(leaf, fresh)


def _like(value: Any, fresh: Any) -> jax.Array:
    # A copy: jnp.asarray may share a numpy array's memory, and torch continues to write to it.
    return jnp.array(value, jnp.asarray(fresh).dtype)
