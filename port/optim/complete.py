"""Whether a torch optimizer's state is whole: all that its optax state has a place for is kept of each parameter."""

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
    """See that each parameter's state has all that its optimizer's options ask for, or nothing at all.

    Args:
        optimizer: torch's.
        names: of its parameters, group by group.

    Raises:
        WeightsMismatch: a state of which a part is missing.
    """
    pair = pair_of_optimizer(optimizer)
    if pair.closure:  # one state for all, of which torch makes each part when it needs it
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
                    f"these options cannot go on; it holds {', '.join(sorted(held[name]))}: give the whole state of "
                    "this optimizer, or an optimizer without any, which begins anew"
                )


def kept_keys(pair: OptimizerPair, group: dict[str, Any], shapes: Shapes) -> dict[str, set[str]]:
    """torch's keys in the state of each parameter: those of the fields that the chain's state has for it."""
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
                for name in (path_of(keys),) if keys else shapes:  # a scalar is each one's
                    kept[name].add(key)
    return kept
