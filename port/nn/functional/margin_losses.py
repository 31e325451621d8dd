"""Hinge losses of class scores, the classes last: multi_margin, multilabel_margin.

A hinge's gradient is 0 at its edge, as in torch. Formulas: the documentation of torch.nn's class of the same name.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.nn.functional.reduction import reduce_losses


def multi_margin_loss(
    input: jax.Array,
    target: jax.Array,
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: jax.Array | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """w[y]·Σ max(0, margin − x[y] + x[i])ᵖ / C over the classes i ≠ y.

    Args:
        input: scores x, (…, C).
        target: labels y, (…). A label that is not a class gives NaN: torch raises, which compiled code cannot.
        p: 1 or 2.
        margin: how far the target's score should exceed the others.
        weight: w, a factor for each class, (C,).
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction or p, or shapes that do not match.
    """
    if p not in (1, 2):
        raise UsageError(f"multi_margin_loss takes p = 1 or p = 2, got {p}")
    classes = input.shape[-1]
    if target.shape != input.shape[:-1]:
        raise UsageError(f"labels of scores {input.shape} need shape {input.shape[:-1]}, got {target.shape}")
    if weight is not None and weight.shape != (classes,):
        raise UsageError(f"class weights of {classes} classes need shape ({classes},), got {weight.shape}")
    right = target[..., None] == jnp.arange(classes)
    hinges = jnp.where(right, 0, jax.nn.relu(margin - _scores_of(input, target[..., None]) + input) ** p)
    losses = hinges.sum(axis=-1) / classes
    return reduce_losses(losses if weight is None else losses * weight[target], reduction)


def multilabel_margin_loss(input: jax.Array, target: jax.Array, *, reduction: str = "mean") -> jax.Array:
    """Σ max(0, 1 − x[y] + x[i]) / C over the labels y of a row and the classes i that are not among them.

    Args:
        input: scores x, (…, C).
        target: (…, C), labels up to the first negative number; the rest is ignored. A label that is not a class gives
            NaN. A repeated label counts each time, as in torch.
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that differ.
    """
    if input.shape != target.shape:
        raise UsageError(f"scores and labels must have equal shapes; got {input.shape} and {target.shape}")
    classes = input.shape[-1]
    is_label = jnp.cumprod(target >= 0, axis=-1).astype(bool)
    labels = jnp.where(is_label, target, 0)
    right = ((labels[..., None] == jnp.arange(classes)) & is_label[..., None]).any(axis=-2)  # (…, C)
    hinges = jax.nn.relu(1 - _scores_of(input, labels)[..., None] + input[..., None, :])  # (…, label, class)
    losses = jnp.where(is_label[..., None] & ~right[..., None, :], hinges, 0).sum(axis=(-2, -1)) / classes
    return reduce_losses(losses, reduction)


def _scores_of(input: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the scores of labels along the last axis, NaN for a label that is not a class."""
    is_class = (labels >= 0) & (labels < input.shape[-1])
    scores = jnp.take_along_axis(input, jnp.where(is_class, labels, 0), axis=-1)
    return jnp.where(is_class, scores, jnp.nan)
