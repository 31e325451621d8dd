"""Gradient clipping with PyTorch's semantics: torch.nn.utils.clip_grad_norm_.

torch.nn.utils.clip_grad_value_ is ``optax.clip``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from port.errors import UsageError


def clip_by_torch_norm(max_norm: jax.typing.ArrayLike, norm_type: float = 2.0) -> optax.GradientTransformation:
    """Scale gradients by min(1, max_norm / (norm + 1e-6)); torch.nn.utils.clip_grad_norm_.

    ``norm`` is `torch_norm` of all gradients. Formula: torch/nn/utils/clip_grad.py, ``_clip_grads_with_norm_``. A norm
    that is NaN makes all gradients NaN, an infinite one makes the finite ones 0, as in torch.

    optax.clip_by_global_norm, of norm 2 alone, has no 1e-6: a norm of 1 clipped to 0.5 is off by 1e-6, one of 1e-3
    clipped to half of it by 1e-3.

    Args:
        max_norm: the largest norm that is left.
        norm_type: see `torch_norm`.
    """
    norm_type = float(norm_type)

    def update(updates: Any, state: optax.EmptyState, params: Any = None) -> tuple[Any, optax.EmptyState]:
        norm = torch_norm(updates, norm_type)
        coefficient = jnp.minimum((max_norm / (norm + 1e-6)).astype(norm.dtype), 1)

        def clipped(gradient: jax.Array) -> jax.Array:
            # In 16 bits the product is computed in float32 and rounded once: the float32 coefficient is not rounded
            # first.
            wide = _at_least_float32(gradient.dtype)
            return (gradient.astype(wide) * coefficient.astype(wide)).astype(gradient.dtype)

        return jax.tree.map(clipped, updates), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def torch_norm(tree: Any, norm_type: float = 2.0) -> jax.Array:
    """Compute the norm of the norms of the arrays; torch.nn.utils.get_total_norm.

    (Σ|x|^p)^(1/p) of each array, then of these norms, which is the norm of all numbers together except for p = 0.

    Args:
        tree: any tree of arrays.
        norm_type: p. Infinity, also ``"inf"``: the largest |x|; −infinity: the smallest; 0: the number of arrays that
            are not all zero, for that is the "norm" of order 0 of the numbers of non-zero values; any other, including
            negative ones: the formula.

    Returns:
        A scalar in the dtype that the arrays promote to; 16-bit floats are summed in float32. 0 for an empty tree.

    Raises:
        UsageError: an array of size 0 with infinite or negative p, for which torch has no norm either.
    """
    norm_type = float(norm_type)
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    if not leaves:
        return jnp.zeros([])
    if norm_type < 0 or norm_type == float("inf"):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if jnp.size(leaf) == 0:
                where = jax.tree_util.keystr(path)
                raise UsageError(
                    f"the norm of order {norm_type} of an array without numbers is not defined: {where} has shape "
                    f"{jnp.shape(leaf)}. Leave it out, or use another norm_type"
                )
    norms = [_norm(leaf, norm_type) for leaf in leaves]
    together = jnp.result_type(*norms)
    return _norm(jnp.stack([norm.astype(together) for norm in norms]), norm_type)


def _norm(array: jax.Array, order: float) -> jax.Array:
    """torch.linalg.vector_norm of all numbers of an array, in its dtype."""
    sizes = jnp.abs(array.astype(_at_least_float32(array.dtype)))
    if order == float("inf"):
        norm = sizes.max()
    elif order == float("-inf"):
        norm = sizes.min()
    elif order == 0:
        norm = (sizes != 0).sum()
    elif order == 1:
        norm = sizes.sum()
    elif order == 2:
        norm = jnp.sqrt((sizes * sizes).sum())
    else:
        norm = (sizes**order).sum() ** (1 / order)
    return norm.astype(array.dtype)


def _at_least_float32(dtype: jax.typing.DTypeLike) -> jax.typing.DTypeLike:
    return jnp.promote_types(dtype, jnp.float32)
