"""Scaled dot-product attention in the dtype of its inputs, for models that are compared in float64.

`jax.nn.dot_product_attention`, which nnx.MultiHeadAttention calls, takes its softmax in float32 whatever the inputs
are: its results are right to some 1e-7.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def attend(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None, **_: Any) -> jax.Array:
    """softmax(Q Kᵀ / √D) V in each head.

    Args:
        query: (N, L, H, D).
        key: (N, S, H, D).
        value: (N, S, H, D).
        mask: (…, L, S), True where a query may attend.

    Returns:
        (N, L, H, D).
    """
    scores = jnp.einsum("nlhd,nshd->nhls", query, key) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum("nhls,nshd->nlhd", jax.nn.softmax(scores), value)
