"""Reductions of losses: torch's ``reduction``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str, choices: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise UnknownChoice for an unknown reduction."""
    if reduction not in choices:
        raise UnknownChoice("reduction", reduction, choices)


def reduce_losses(losses: jax.Array, reduction: str) -> jax.Array:
    """Return all losses (``"none"``), their mean over every axis, or their sum. An empty mean is NaN, as in torch.

    Raises:
        UnknownChoice: an unknown reduction.
    """
    check_reduction(reduction)
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


def reduce_weighted(losses: jax.Array, weights: jax.Array, reduction: str) -> jax.Array:
    """Reduce losses that are multiplied by their weights: the mean is Σ losses / Σ weights.

    Raises:
        UnknownChoice: an unknown reduction.
    """
    check_reduction(reduction)
    if reduction == "mean":
        # A count may exceed the digits of half precision.
        wide = jnp.promote_types(losses.dtype, jnp.float32)
        return (losses.sum(dtype=wide) / weights.sum(dtype=wide)).astype(losses.dtype)
    return losses.sum() if reduction == "sum" else losses
