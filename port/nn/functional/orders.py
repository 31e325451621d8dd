"""Order statistics along an axis, with their indices; binary search."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def kthvalue(input: jax.Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[jax.Array, jax.Array]:
    """Return the k-th smallest element along ``dim``, counted from 1, and its index. Source: torch.kthvalue."""
    order = jnp.argsort(jax.lax.stop_gradient(input), axis=dim)
    return _picked(input, jax.lax.slice_in_dim(order, k - 1, k, axis=dim), dim, keepdim)


def mode(input: jax.Array, dim: int = -1, keepdim: bool = False) -> tuple[jax.Array, jax.Array]:
    """Return the most frequent element along ``dim``, the smallest of several, and its last index.

    Source: torch.mode. Compares all pairs: memory is quadratic in the length.
    """
    x = jnp.moveaxis(jax.lax.stop_gradient(input), dim, -1)
    often = (x[..., :, None] == x[..., None, :]).sum(-1)
    most = often == often.max(-1, keepdims=True)
    smallest = jnp.where(most, x, x.max(-1, keepdims=True)).min(-1, keepdims=True)
    last = x.shape[-1] - 1 - jnp.argmax((most & (x == smallest))[..., ::-1], axis=-1, keepdims=True)
    return _picked(input, jnp.moveaxis(last, -1, dim), dim, keepdim)


def _picked(input: jax.Array, places: jax.Array, dim: int, keepdim: bool) -> tuple[jax.Array, jax.Array]:
    values = jnp.take_along_axis(input, places, axis=dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def searchsorted(sorted_sequence: jax.Array, input: jax.Array, right: bool = False) -> jax.Array:
    """Return the index at which each value belongs in its row of a sorted array. Source: torch.searchsorted.

    Args:
        sorted_sequence: rows (…, n).
        input: values (…, m); each row is searched in the same row of ``sorted_sequence``.
        right: return the index after equal elements, not before.
    """

    def of_rows(row: jax.Array, values: jax.Array) -> jax.Array:
        return jnp.searchsorted(row, values, side="right" if right else "left")

    return jnp.vectorize(of_rows, signature="(n),(m)->(m)")(sorted_sequence, input).astype(int)
