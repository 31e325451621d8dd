"""Special functions with torch's values where JAX's differ."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def zeta(x: jax.Array, q: jax.Array) -> jax.Array:
    """Hurwitz zeta function, Σ (k + q)^−x over k = 0, 1, 2 and so on.

    `jax.scipy.special.zeta` differs at the poles, where q is a whole number that is not positive: it gives infinity
    for x < 1, and NaN for an odd or fractional x > 1. Source: torch.special.zeta.

    Args:
        x: any shape; NaN below 1, infinity at 1.
        q: a shape that broadcasts with x's.
    """
    is_pole = (q <= 0) & (q == jnp.floor(q))
    values = jnp.where(is_pole, jnp.inf, jax.scipy.special.zeta(x, q))
    return jnp.where(x < 1, jnp.nan, jnp.where(x == 1, jnp.inf, values))
