"""Distances and similarities of vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.nn.functional.kinks import vector_norm


def cosine_similarity(x1: jax.Array, x2: jax.Array, dim: int = 1, eps: float = 1e-8) -> jax.Array:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along ``dim``, which is removed.

    As in torch, the gradient ignores the lower bound of the norms, and the gradient of a zero vector's norm is 0.
    Source: torch.nn.CosineSimilarity, ATen's ``cosine_similarity``.

    Args:
        x1: of any shape.
        x2: of a shape that broadcasts with x1's.
        dim: the axis of the vectors, in the shape that both broadcast to.
        eps: the least norm.
    """
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum(dim)


def _unit(x: jax.Array, dim: int, eps: float) -> jax.Array:
    norm = vector_norm(x, dim=dim, keepdim=True)
    return x / (norm + jax.lax.stop_gradient(jnp.maximum(norm, eps) - norm))


def pairwise_distance(
    x1: jax.Array, x2: jax.Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> jax.Array:
    """‖x1 − x2 + eps‖ₚ over the last axis: (…, D) → (…). Source: torch.nn.PairwiseDistance.

    Args:
        x1: (…, D).
        x2: of a shape that broadcasts with x1's.
        p: order of the norm; for its gradient at zeros see `port.nn.functional.vector_norm`.
        eps: added to every difference.
        keepdim: keep the last axis, as 1.
    """
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
