"""Functions whose gradient at a kink is torch's and not JAX's.

Not here because JAX agrees: max(x, 0) with gradient 0 at 0 is `jax.nn.relu` (torch 2.15's ``clamp_min``; 2.13 has 1
there), and the minimum of two splits its gradient between equals in both.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def absolute(x: jax.Array) -> jax.Array:
    """|x|, of x's shape, with gradient 0 at 0; that of `jnp.abs` is 1 there."""
    return x * jnp.sign(x)


def vector_norm(x: jax.Array, p: float = 2.0) -> jax.Array:
    """(Σ|x|ᵖ)^(1/p) over the last axis: (…, D) → (…). Source: torch.linalg.vector_norm and its backward.

    The gradient is 0 for a vector of zeros, and for each zero of any vector, where that of `jnp.linalg.norm` is NaN.
    ``p`` may be 0 (the number of values that are not zero), or infinite (the largest; equals share the gradient).
    """
    if p == 0:
        return (x != 0).sum(axis=-1, dtype=x.dtype)
    size = absolute(x)
    if p == 1:
        return size.sum(axis=-1)
    if math.isinf(p):
        return size.max(axis=-1) if p > 0 else size.min(axis=-1)
    # A power's derivative at 0 may be infinite, which times 0 is NaN: zeros never reach it.
    powers = jnp.square(x) if p == 2 else jnp.where(size == 0, 0, jnp.where(size == 0, 1, size) ** p)
    total = powers.sum(axis=-1)
    not_zero = jnp.where(total == 0, 1, total)
    return jnp.where(total == 0, 0, jnp.sqrt(not_zero) if p == 2 else not_zero ** (1 / p))
