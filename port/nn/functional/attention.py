"""Scaled dot-product attention with any number of heads."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from port.errors import UsageError


def scaled_dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    attn_mask: jax.Array | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """softmax(scale · query · keyᵀ + mask) · value: (…, L, E), (…, S, E), (…, S, V) → (…, L, V).

    A query whose keys are all masked gives 0, as in torch; a plain softmax gives NaN. Source:
    torch.nn.functional.scaled_dot_product_attention. (In `jax.nn.dot_product_attention` the heads are the last axis but
    one.)

    Args:
        query: (…, heads, L, E), or without heads.
        key: (…, heads, S, E).
        value: (…, heads, S, V).
        attn_mask: broadcast to (…, L, S): True where a query attends to a key, or floats that are added to the scores.
        is_causal: query i attends to the keys up to i; instead of a mask.
        scale: a factor; None is 1 / √E.
        enable_gqa: grouped-query attention: several heads of query share a head of key and value.
        dropout: applied to the weights: an nnx.Dropout, whose rate is torch's ``dropout_p``.

    Raises:
        UsageError: both a mask and is_causal, or heads of query that are not a multiple of those of key and value.
    """
    if is_causal and attn_mask is not None:
        raise UsageError("is_causal and attn_mask exclude each other: pass attn_mask=None")
    if enable_gqa:
        heads = {x.shape[-3] for x in (key, value)}
        if any(query.shape[-3] % n for n in heads):
            raise UsageError(f"heads of query must be a multiple of key's and value's; got {query.shape[-3]}, {heads}")
        key, value = (jnp.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
    if attn_mask is None:
        weights = jax.nn.softmax(scores, axis=-1)
        return (weights if dropout is None else dropout(weights)) @ value
    scores = jnp.where(attn_mask, scores, -jnp.inf) if attn_mask.dtype == bool else scores + attn_mask
    blind = jnp.all(scores == -jnp.inf, axis=-1, keepdims=True)
    # The NaN of a softmax over only −∞ must not reach the gradient.
    weights = jnp.where(blind, 0, jax.nn.softmax(jnp.where(blind, 0, scores), axis=-1))
    return (weights if dropout is None else dropout(weights)) @ value
