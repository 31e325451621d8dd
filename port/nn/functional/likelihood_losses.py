"""Losses of a predicted distribution: gaussian_nll, poisson_nll, kl_div.

Every function takes arrays of one common shape, in any layout, and returns that shape with ``reduction="none"``,
otherwise a scalar. Formulas: the documentation of torch.nn's class of the same name.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from port.errors import UsageError
from port.nn.functional.reduction import REDUCTIONS, check_reduction, reduce_losses


def gaussian_nll_loss(
    input: jax.Array,
    target: jax.Array,
    var: jax.Array | float,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> jax.Array:
    """½(log v + (input − target)²/v), v = max(var, eps); the gradient ignores the maximum.

    Args:
        input: means.
        target: samples.
        var: variances, of the shape of ``input``; or with one axis of length 1; or without the *last* axis (in another
            layout than torch's, another axis); or one number. A negative variance gives NaN: torch raises, which
            compiled code cannot.
        full: add the constant ½log 2π.
        eps: the smallest variance.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, a negative number for ``var``, or a ``var`` of a wrong shape.
    """
    if isinstance(var, float | int):
        if var < 0:
            raise UsageError(f"gaussian_nll_loss needs variances of 0 or more, got {var}")
        var = jnp.full_like(input, var)
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var[..., None]
        elif var.ndim != input.ndim or [v for v, x in zip(var.shape, input.shape, strict=True) if v != x] != [1]:
            raise UsageError(
                f"gaussian_nll_loss of input {input.shape} needs variances of that shape, or with one axis of length "
                f"1, or without the last axis; got {var.shape}"
            )
    var = _at_least(var, eps)
    losses = 0.5 * (jnp.log(var) + jnp.square(input - target) / var)
    return reduce_losses(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _at_least(var: jax.Array, eps: float) -> jax.Array:
    return jnp.where(var < 0, jnp.nan, jnp.maximum(var, eps))


@_at_least.defjvp
def _(eps: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return _at_least(*primals, eps), tangents[0]


def poisson_nll_loss(
    input: jax.Array,
    target: jax.Array,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> jax.Array:
    """exp(input) − target·input; without ``log_input``: input − target·log(input + eps).

    Args:
        input: the logarithm of the rate, or without ``log_input`` the rate.
        target: counts.
        log_input: whether ``input`` is the logarithm.
        full: add Stirling's target·log target − target + ½log(2π·target), for targets above 1.
        eps: keeps the logarithm finite.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction.
    """
    losses = jnp.exp(input) - target * input if log_input else input - target * jnp.log(input + eps)
    if full:
        stirling = target * jnp.log(target) - target + 0.5 * jnp.log(2 * math.pi * target)
        losses = losses + jnp.where(target <= 1, 0, stirling)
    return reduce_losses(losses, reduction)


def kl_div(input: jax.Array, target: jax.Array, *, reduction: str = "mean", log_target: bool = False) -> jax.Array:
    """target·(log target − input), 0 where the target is 0.

    Args:
        input: log-probabilities; the first axis is the batch.
        target: probabilities; or their logarithms, with ``log_target``.
        reduction: ``"batchmean"``, the sum divided by the batch size, is the divergence; ``"mean"`` divides by the
            number of values, so it is smaller by a factor of the number of classes. Or ``"none"``, ``"sum"``.
        log_target: whether ``target`` is a logarithm.

    Raises:
        UsageError: an unknown reduction.
    """
    check_reduction(reduction, (*REDUCTIONS, "batchmean"))
    losses = jnp.exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.ndim else losses
    return reduce_losses(losses, reduction)
