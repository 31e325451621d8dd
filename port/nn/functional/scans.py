"""Cumulative maxima and minima, with their indices."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def cummax(input: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    """Return the cumulative maximum along ``dim``, and its index: the last of equal ones. Source: torch.cummax.

    The gradient goes to that index, where that of `jax.lax.cummax` is shared among equals.
    """
    return _extremes(input, dim, jax.lax.cummax)


def cummin(input: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    """Return the cumulative minimum along ``dim``, and its last index. Source: torch.cummin."""
    return _extremes(input, dim, jax.lax.cummin)


def _extremes(input: jax.Array, dim: int, so_far: object) -> tuple[jax.Array, jax.Array]:
    axis = range(input.ndim)[dim]
    extreme = so_far(jax.lax.stop_gradient(input), axis=axis)  # type: ignore[operator]
    is_new = (input == extreme) | (input != input)
    places = jnp.where(is_new, jax.lax.broadcasted_iota(int, input.shape, axis), 0)
    places = jax.lax.cummax(places, axis=axis)
    return jnp.take_along_axis(input, places, axis=axis), places
