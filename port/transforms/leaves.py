"""Applies one step to a whole tree, leaf by leaf: in at least float32, rounded back to each leaf's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from port.errors import UsageError


def map_leaves(
    step: Callable[..., tuple[Any, ...]], gradients: Any, states: tuple[Any, ...], *others: Any
) -> tuple[Any, ...]:
    """Apply ``step`` to each leaf; return the trees of directions and of new states.

    float16 and bfloat16 are widened to float32 for the whole step and rounded once at its end. (torch rounds after
    each of the step's operations. In bfloat16 a decay of 0.999 would itself be 1.)

    Args:
        step: maps the leaves of ``gradients``, ``states`` and ``others`` at one position to the direction and the new
            states, of any float dtype.
        gradients: any tree; nodes without leaves (`optax.MaskedNode`, None) are kept.
        states: trees with an array, or a node without leaves, at the position of each gradient.
        others: read-only trees, such as the parameters.

    Returns:
        The directions, in the gradients' dtypes, and the new states, in the old ones' dtypes.
    """
    structure: Any  # jax's types declare no methods for it
    leaves, structure = jax.tree.flatten(gradients)
    columns = [structure.flatten_up_to(tree) for tree in (*states, *others)]
    rows = []
    for old in zip(leaves, *columns, strict=True):
        new = step(*jax.tree.map(_widened, old))
        rows.append([jax.tree.map(_rounded, value, like) for value, like in zip(new, old, strict=False)])
    return tuple(structure.unflatten([row[i] for row in rows]) for i in range(1 + len(states)))


def required(params: Any, transformation: str) -> Any:
    """Return ``params``, which ``transformation`` requires.

    Raises:
        UsageError: they are None.
    """
    if params is None:
        raise UsageError(f"{transformation} reads the parameters; got none. Call update(gradients, state, params)")
    return params


def _widened(leaf: jax.Array) -> jax.Array:
    return jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32))


def _rounded(value: jax.Array, like: jax.Array) -> jax.Array:
    return value.astype(jnp.result_type(like))
