"""From one loss an element to the loss: torch's ``reduction``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str, choices: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise UnknownChoice for a reduction that there is not."""
    if reduction not in choices:
        raise UnknownChoice("reduction", reduction, choices)


def reduce_losses(losses: jax.Array, reduction: str) -> jax.Array:
    """All of them (``"none"``), their mean over every axis, or their sum. The mean of none is NaN, as in torch.

    Raises:
        UnknownChoice: another reduction.
    """
    check_reduction(reduction)
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


def reduce_weighted(losses: jax.Array, weights: jax.Array, reduction: str) -> jax.Array:
    """The same for losses that hold their weights already: the mean is Σ losses / Σ weights.

    Raises:
        UnknownChoice: another reduction.
    """
    check_reduction(reduction)
    if reduction == "mean":
        # A count has more digits than half precision holds.
        wide = jnp.promote_types(losses.dtype, jnp.float32)
        return (losses.sum(dtype=wide) / weights.sum(dtype=wide)).astype(losses.dtype)
    return losses.sum() if reduction == "sum" else losses
