"""Regression losses: l1, mse, smooth_l1, huber.

Every function takes arrays of one common shape, in any layout, and returns that shape with ``reduction="none"``,
otherwise a scalar. As in torch, different shapes are broadcast with a warning; ``weight`` has the shape of ``input``.
Formulas: the documentation of torch.nn's class of the same name.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import optax

from port.errors import UsageError
from port.nn.functional.kinks import absolute
from port.nn.functional.reduction import reduce_losses, reduce_weighted


def l1_loss(
    input: jax.Array, target: jax.Array, *, reduction: str = "mean", weight: jax.Array | None = None
) -> jax.Array:
    """|input − target|; the gradient is 0 where both are equal, as in torch.

    Args:
        input: the predictions.
        target: the true values.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        weight: a factor for each element; the mean then divides by their sum.

    Raises:
        UsageError: an unknown reduction, or a weight of another shape.
    """
    input, target = _broadcast(input, target, weight)
    return _reduce(absolute(input - target), weight, reduction)


def mse_loss(
    input: jax.Array, target: jax.Array, *, reduction: str = "mean", weight: jax.Array | None = None
) -> jax.Array:
    """(input − target)². This is `optax.squared_error`; `optax.l2_loss` is half of it.

    Args:
        input: the predictions.
        target: the true values.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        weight: a factor for each element; the mean then divides by their sum.

    Raises:
        UsageError: an unknown reduction, or a weight of another shape.
    """
    input, target = _broadcast(input, target, weight)
    return _reduce(optax.squared_error(input, target), weight, reduction)


def huber_loss(
    input: jax.Array,
    target: jax.Array,
    *,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: jax.Array | None = None,
) -> jax.Array:
    """½d² up to |d| = delta, delta·(|d| − ½delta) beyond; d = input − target. This is `optax.huber_loss`.

    Args:
        input: the predictions.
        target: the true values.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        delta: where the linear part begins; positive.
        weight: a factor for each element; unlike in `mse_loss`, the mean still divides by the number of values.

    Raises:
        UsageError: an unknown reduction, a weight of another shape, or a delta that is not positive.
    """
    if delta <= 0:
        raise UsageError(f"huber_loss needs a positive delta, got {delta}")
    input, target = _broadcast(input, target, weight)
    losses = optax.huber_loss(input, target, delta=delta)
    return reduce_losses(losses if weight is None else losses * weight, reduction)


def smooth_l1_loss(input: jax.Array, target: jax.Array, *, reduction: str = "mean", beta: float = 1.0) -> jax.Array:
    """½d²/beta up to |d| = beta, |d| − ½beta beyond: `huber_loss` with delta = beta, divided by it.

    Args:
        input: the predictions.
        target: the true values.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        beta: where the linear part begins; 0 makes it `l1_loss`.

    Raises:
        UsageError: an unknown reduction, or a negative beta.
    """
    if beta < 0:
        raise UsageError(f"smooth_l1_loss needs a beta of 0 or more, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = _broadcast(input, target)
    return reduce_losses(optax.huber_loss(input, target, delta=beta) / beta, reduction)


def _broadcast(input: jax.Array, target: jax.Array, weight: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """Broadcast both to one shape and float dtype; warn if the shapes differ, as (N,) against (N, 1) makes (N, N)."""
    if weight is not None and weight.shape != input.shape:
        raise UsageError(f"the weight of a loss must have its input's shape {input.shape}; got {weight.shape}")
    if input.shape != target.shape:
        warnings.warn(
            f"a loss broadcasts input {input.shape} and target {target.shape}; give both the same shape",
            stacklevel=3,
        )
    # `float` is weakly typed: it promotes integers and leaves floats unchanged.
    dtype = jnp.result_type(input, target, float)
    input, target = jnp.broadcast_arrays(input, target)
    return input.astype(dtype), target.astype(dtype)


def _reduce(losses: jax.Array, weight: jax.Array | None, reduction: str) -> jax.Array:
    return reduce_losses(losses, reduction) if weight is None else reduce_weighted(losses * weight, weight, reduction)
