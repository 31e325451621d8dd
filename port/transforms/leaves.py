"""One step of a whole tree, leaf by leaf: in at least float32, rounded back to each leaf's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from port.errors import UsageError


def map_leaves(
    step: Callable[..., tuple[Any, ...]], gradients: Any, states: tuple[Any, ...], *others: Any
) -> tuple[Any, ...]:
    """The trees of directions and of new states that ``step`` makes of each leaf.

    float16 and bfloat16 are widened to float32 for the whole step and rounded once at its end. (torch rounds after
    each of the step's operations. In bfloat16 a decay of 0.999 would itself be 1.)

    Args:
        step: from the leaves of ``gradients``, ``states`` and ``others`` in one place to the direction and the new
            states, of any float dtype.
        gradients: any tree; nodes without leaves (`optax.MaskedNode`, None) stay what they are.
        states: trees with an array, or a node without leaves, in the place of each gradient.
        others: trees that are read only, such as the parameters.

    Returns:
        The directions, of the gradients' dtypes, and the new states, of the old ones' dtypes.
    """
    structure: Any  # jax declares no methods of it
    leaves, structure = jax.tree.flatten(gradients)
    columns = [structure.flatten_up_to(tree) for tree in (*states, *others)]
    rows = []
    for old in zip(leaves, *columns, strict=True):
        new = step(*jax.tree.map(_widened, old))
        rows.append([jax.tree.map(_rounded, value, like) for value, like in zip(new, old, strict=False)])
    return tuple(structure.unflatten([row[i] for row in rows]) for i in range(1 + len(states)))


def required(params: Any, transformation: str) -> Any:
    """``params``, which ``transformation`` cannot do without.

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
