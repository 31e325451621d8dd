"""Losses of binary targets: binary_cross_entropy with probabilities and with logits, soft margins.

Any layout works, unless a function states one. Formulas: the documentation of torch.nn's class of the same name.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.reduction import reduce_losses

LEAST_VARIANCE = float(np.float32(1e-12))
"""The float32 constant of torch's C++, used for every dtype of the input."""


def binary_cross_entropy(
    input: jax.Array, target: jax.Array, weight: jax.Array | None = None, *, reduction: str = "mean"
) -> jax.Array:
    """−w·(t·log p + (1 − t)·log(1 − p)), each logarithm at least −100.

    The gradient is torch's, also where the formula has none: w·(p − t)/max(p(1 − p), 1e−12).

    Args:
        input: probabilities p, any shape. One outside [0, 1] gives NaN: torch raises, which compiled code cannot.
        target: t, of the same shape, 0 to 1.
        weight: w, broadcast.
        reduction: ``"none"``, ``"mean"`` (divides by the number of values, not by the weights) or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that differ.
    """
    _check_shapes(input, target)
    losses = _binary_cross_entropies(input, target)
    return reduce_losses(losses if weight is None else losses * weight, reduction)


@jax.custom_jvp
def _binary_cross_entropies(input: jax.Array, target: jax.Array) -> jax.Array:
    return (target - 1) * jnp.maximum(jnp.log1p(-input), -100) - target * jnp.maximum(jnp.log(input), -100)


@partial(_binary_cross_entropies.defjvp, symbolic_zeros=True)
def _(primals: tuple[jax.Array, jax.Array], tangents: tuple[Any, Any]) -> tuple[jax.Array, Any]:
    input, target = primals
    slopes = (
        lambda: (input - target) / jnp.maximum((1 - input) * input, LEAST_VARIANCE),
        lambda: jnp.log1p(-input) - jnp.log(input),
    )
    # A slope may be infinite; times the zero tangent of an argument that is not differentiated it would be NaN.
    is_zero = [isinstance(tangent, jax.custom_derivatives.SymbolicZero) for tangent in tangents]
    terms = [slope() * tangent for slope, tangent, zero in zip(slopes, tangents, is_zero, strict=True) if not zero]
    return _binary_cross_entropies(input, target), sum(terms)


def binary_cross_entropy_with_logits(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    *,
    reduction: str = "mean",
    pos_weight: jax.Array | None = None,
) -> jax.Array:
    """−w·(v·t·log σ(x) + (1 − t)·log σ(−x)). Without v it is `optax.sigmoid_binary_cross_entropy`.

    Args:
        input: logits x, any shape.
        target: t, of the same shape, 0 to 1.
        weight: w, broadcast.
        reduction: ``"none"``, ``"mean"`` (divides by the number of values, not by the weights) or ``"sum"``.
        pos_weight: v, the weight of positive targets, broadcast; (C,) where the classes are the last axis: torch's
            (C, 1, 1) for (N, C, H, W) is (C,) for (N, H, W, C).

    Raises:
        UsageError: an unknown reduction, or shapes that differ.
    """
    _check_shapes(input, target)
    positive = target if pos_weight is None else target * pos_weight
    losses = -positive * jax.nn.log_sigmoid(input) - (1 - target) * jax.nn.log_sigmoid(-input)
    return reduce_losses(losses if weight is None else losses * weight, reduction)


def soft_margin_loss(input: jax.Array, target: jax.Array, *, reduction: str = "mean") -> jax.Array:
    """log(1 + exp(−target·input)).

    It does not overflow: torch's is infinite, and its gradient NaN, where −target·input exceeds 88 in float32 (709 in
    float64).

    Args:
        input: scores, any shape.
        target: 1 or −1, of the same shape.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that differ.
    """
    _check_shapes(input, target)
    return reduce_losses(jax.nn.softplus(-target * input), reduction)


def multilabel_soft_margin_loss(
    input: jax.Array, target: jax.Array, weight: jax.Array | None = None, *, reduction: str = "mean"
) -> jax.Array:
    """Mean over the classes of w·binary_cross_entropy_with_logits. Classes are the last axis, as in torch.

    Args:
        input: logits (…, C).
        target: 0 or 1, (…, C).
        weight: w, a factor for each class, (C,).
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that differ.
    """
    losses = binary_cross_entropy_with_logits(input, target, weight, reduction="none")
    return reduce_losses(losses.mean(axis=-1), reduction)


def _check_shapes(input: jax.Array, target: jax.Array) -> None:
    if input.shape != target.shape:
        raise UsageError(f"input and target of this loss must have equal shapes; got {input.shape}, {target.shape}")
