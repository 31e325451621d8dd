"""Functions with torch's gradient at kinks, where JAX's differs.

Left out because JAX agrees: `jax.nn.relu` is max(x, 0) with gradient 0 at 0 (torch 2.15's ``clamp_min``; torch 2.13 has
1 there), and the minimum of two equal values splits its gradient in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp


def absolute(x: jax.Array) -> jax.Array:
    """|x|, of x's shape, with gradient 0 at 0 and at NaN; that of `jnp.abs` is 1 at 0 and NaN at NaN."""
    return x * ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def vector_norm(
    x: jax.Array, ord: float = 2.0, dim: int | Sequence[int] | None = None, keepdim: bool = False
) -> jax.Array:
    """(Σ|x|ᵖ)^(1/p) over some axes. Source: torch.linalg.vector_norm and its backward.

    The gradient is 0 for a vector of zeros, and for each zero of any vector, where that of `jnp.linalg.norm` is NaN.

    Args:
        x: of any shape.
        ord: p; may be 0 (the number of nonzero values), or infinite (the largest; equal maxima share the gradient).
        dim: the axes; None for all.
        keepdim: keep the axes, with length 1.
    """
    axis = tuple(dim) if isinstance(dim, Sequence) else dim
    if ord == 0:
        return (x != 0).sum(axis=axis, keepdims=keepdim, dtype=x.real.dtype)
    size = vector_norm(jnp.stack([x.real, x.imag]), dim=0) if jnp.iscomplexobj(x) else absolute(x)
    if ord == 1:
        return size.sum(axis=axis, keepdims=keepdim)
    if math.isinf(ord):
        return (jnp.max if ord > 0 else jnp.min)(size, axis=axis, keepdims=keepdim)
    # A power's derivative at 0 may be infinite, and times 0 would be NaN: zeros are masked before it.
    powers = jnp.square(size) if ord == 2 else jnp.where(size == 0, 0, jnp.where(size == 0, 1, size) ** ord)
    total = powers.sum(axis=axis, keepdims=keepdim)
    return _root(total) if ord == 2 else jnp.where(total == 0, 0, jnp.where(total == 0, 1, total) ** (1 / ord))


def std(
    x: jax.Array, dim: int | Sequence[int] | None = None, correction: float = 1, keepdim: bool = False
) -> jax.Array:
    """The standard deviation over some axes, with gradient 0 where all values are equal; that of `jnp.std` is NaN.

    Source: torch.std and its backward.

    Args:
        x: of any shape.
        dim: the axes; None for all.
        correction: the sum of squares is divided by the count minus this.
        keepdim: keep the axes, with length 1.
    """
    axis = tuple(dim) if isinstance(dim, Sequence) else dim
    return _root(jnp.var(x, axis=axis, ddof=correction, keepdims=keepdim))  # type: ignore[arg-type]


def _root(x: jax.Array) -> jax.Array:
    """√x, with gradient 0 at 0."""
    return jnp.where(x == 0, 0, jnp.sqrt(jnp.where(x == 0, 1, x)))
