"""The next token, drawn from a language model's scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def warped(logits: jax.Array, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> jax.Array:
    """Scores of tokens, of which some are −∞: those that are not drawn. (…, vocabulary) → the same.

    In the order of ``transformers.generate``: temperature, then top_k, then top_p
    (``TemperatureLogitsWarper``, ``TopKLogitsWarper``, ``TopPLogitsWarper``).

    Args:
        logits: of each token.
        temperature: the scores are divided by it.
        top_k: so many of the highest are kept, and what ties with the last of them; 0 keeps all.
        top_p: the fewest of the highest are kept whose probabilities sum to this or more; 1 keeps all. Of equal ones
            those that stand later in the vocabulary.
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
