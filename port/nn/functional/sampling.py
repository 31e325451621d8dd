"""Warping a language model's logits before the next token is sampled."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def warped(logits: jax.Array, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> jax.Array:
    """Apply temperature, top-k and top-p: tokens that cannot be drawn get −∞. (…, vocabulary) → the same.

    In the order of ``transformers.generate``: temperature, then top_k, then top_p
    (``TemperatureLogitsWarper``, ``TopKLogitsWarper``, ``TopPLogitsWarper``).

    Args:
        logits: of each token.
        temperature: divides the logits.
        top_k: number of highest logits to keep, plus ties with the last of them; 0 keeps all.
        top_p: keep the smallest set of most likely tokens whose probabilities sum to this or more; 1 keeps all. Among
            equal tokens, those later in the vocabulary are kept.
    """
    logits = logits / temperature
    if top_k:
        lowest = jax.lax.top_k(logits, min(top_k, logits.shape[-1]))[0][..., -1:]
        logits = jnp.where(logits < lowest, -jnp.inf, logits)
    if top_p < 1:
        order = jnp.argsort(logits, axis=-1)
        below = jnp.cumsum(jax.nn.softmax(jnp.take_along_axis(logits, order, axis=-1), axis=-1), axis=-1)
        is_dropped = (below <= 1 - top_p).at[..., -1].set(False)
        is_dropped = jnp.take_along_axis(is_dropped, jnp.argsort(order, axis=-1), axis=-1)
        logits = jnp.where(is_dropped, -jnp.inf, logits)
    return logits
