"""Checks that a torch optimizer's state is complete: each parameter has everything that its optax state stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from port.errors import WeightsMismatch
from port.optim.naming import Names
from port.optim.reading import options_of
from port.pairs.optimizers import STEP, OptimizerPair, pair_of_optimizer
from port.transforms.paths import path_of

if TYPE_CHECKING:
    import torch

Shapes = dict[str, tuple[int, ...]]


def refuse_incomplete(optimizer: torch.optim.Optimizer, names: Names) -> None:
    """Check that each parameter's state has everything that its optimizer's options require, or nothing at all.

    Args:
        optimizer: torch's optimizer.
        names: the names of its parameters, group by group.

    Raises:
        WeightsMismatch: a part of a state is missing.
    """
    pair = pair_of_optimizer(optimizer)
    if pair.closure:  # one state for all, whose parts torch creates when it needs them
        return
    for group, named in zip(optimizer.param_groups, names, strict=True):
        held = {
            name: {key for key, value in optimizer.state[tensor].items() if value is not None}
            for name, tensor in zip(named, group["params"], strict=True)
            if tensor.requires_grad and tensor in optimizer.state
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in zip(named, group["params"], strict=True)}
        wanted = kept_keys(pair, group, {name: shapes[name] for name, keys in held.items() if keys})
        for name, keys in wanted.items():
            if missing := sorted(keys - held[name]):
                raise WeightsMismatch(
                    f"{name}: the optimizer's state of it lacks {', '.join(missing)}, without which {pair.torch} with "
                    f"these options cannot continue; it has {', '.join(sorted(held[name]))}: pass the whole state of "
                    "this optimizer, or an optimizer without any, which starts from the beginning"
                )


def kept_keys(pair: OptimizerPair, group: dict[str, Any], shapes: Shapes) -> dict[str, set[str]]:
    """torch's keys in each parameter's state: those of the fields that the chain's state has for it."""
    kept: dict[str, set[str]] = {name: {STEP} if pair.counts else set() for name in shapes}
    if not shapes:
        return kept
    params = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    state = jax.eval_shape(pair.chain(options_of(pair, group)).build().init, params)
    for part in jax.tree.leaves(state, is_leaf=lambda part: type(part).__name__ in pair.state):
        for field, key in pair.state.get(type(part).__name__, {}).items():
            if field in pair.flags or key == STEP:
                continue
            for keys, _ in jax.tree_util.tree_leaves_with_path(getattr(part, field)):
                for name in (path_of(keys),) if keys else shapes:  # a scalar belongs to each parameter
                    kept[name].add(key)
    return kept
