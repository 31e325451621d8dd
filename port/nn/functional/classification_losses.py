"""Classification losses: cross_entropy, nll_loss. The classes are the last axis (torch: axis 1).

Formulas: the documentation of torch.nn.CrossEntropyLoss and torch.nn.NLLLoss.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.nn.functional.reduction import check_reduction, reduce_weighted


def cross_entropy(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> jax.Array:
    """−w[y]·log softmax(input)[y] for labels, −Σ w·target·log softmax(input) for probabilities.

    `optax.softmax_cross_entropy_with_integer_labels` has no class weights, and gives NaN for the ignored label −100,
    which is left out of both the sum and the mean here. The weighted mean divides by the summed weights of the labels;
    with probabilities, by the number of rows.

    Args:
        input: logits (…, C).
        target: labels (…), integers below C; or probabilities (…, C), floats. A label out of range, except
            ``ignore_index``, gives NaN: torch raises, which compiled code cannot.
        weight: a factor for each class, (C,).
        ignore_index: the label of rows to leave out; if all rows are left out the mean is NaN.
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.
        label_smoothing: the fraction of the target, 0 to 1, that is spread evenly over the classes.

    Raises:
        UsageError: an unknown reduction, smoothing out of range, or shapes that do not match; an ``ignore_index`` of a
            class together with probabilities.
    """
    check_reduction(reduction)
    losses, weights = cross_entropies(input, target, weight, ignore_index=ignore_index, label_smoothing=label_smoothing)
    return reduce_weighted(losses, weights, reduction)


def nll_loss(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> jax.Array:
    """−w[y]·input[y], for log-probabilities; the mean divides by the summed weights of the labels that count.

    Args:
        input: log-probabilities (…, C).
        target: labels (…), integers below C. Any other, except ``ignore_index``, gives NaN.
        weight: a factor for each class, (C,).
        ignore_index: the label of rows to leave out; if all rows are left out the mean is NaN.
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that do not match.
    """
    check_reduction(reduction)
    _check_classes(input, weight)
    return reduce_weighted(*_negative_log_likelihoods(input, target, weight, ignore_index), reduction)


def cross_entropies(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """Return each row's cross entropy and its weight in a mean, both (…); arguments and errors: `cross_entropy`."""
    if not 0 <= label_smoothing <= 1:
        raise UsageError(f"label_smoothing is between 0 and 1, got {label_smoothing}")
    classes = _check_classes(input, weight)
    # torch sums over the classes in float32 and rounds only the result to half precision.
    wide = jnp.promote_types(input.dtype, jnp.float32)
    log_probs = jax.nn.log_softmax(input.astype(wide)).astype(input.dtype)
    if jnp.issubdtype(target.dtype, jnp.floating):
        if target.shape != input.shape:
            raise UsageError(f"class probabilities must have the logits' shape {input.shape}; got {target.shape}")
        if ignore_index >= 0:
            raise UsageError(f"ignore_index ({ignore_index}) has no meaning for class probabilities")
        probabilities = target * (1 - label_smoothing) + label_smoothing / classes
        losses = -_weighted(log_probs * probabilities, weight).sum(axis=-1)
        return losses, jnp.ones_like(losses)
    losses, weights = _negative_log_likelihoods(log_probs, target, weight, ignore_index)
    if label_smoothing:
        spread = -_weighted(log_probs, weight).sum(axis=-1) / classes
        spread = jnp.where(target != ignore_index, spread, 0)
        losses = (1 - label_smoothing) * losses + label_smoothing * spread
    return losses, weights


def _negative_log_likelihoods(
    log_probs: jax.Array, target: jax.Array, weight: jax.Array | None, ignore_index: int
) -> tuple[jax.Array, jax.Array]:
    classes = log_probs.shape[-1]
    if target.shape != log_probs.shape[:-1] or not jnp.issubdtype(target.dtype, jnp.integer):
        raise UsageError(
            f"labels of an input {log_probs.shape}, its {classes} classes last, are integers {log_probs.shape[:-1]}; "
            f"got {target.dtype}{target.shape}. Class probabilities are floats. If the input has its classes on "
            "axis 1, as in torch: jnp.moveaxis(input, 1, -1)"
        )
    target = target.astype(jnp.promote_types(target.dtype, jnp.int32))  # an unsigned integer is never −100
    counts = target != ignore_index
    is_class = (target >= 0) & (target < classes)
    labels = jnp.where(counts & is_class, target, 0)
    losses = -jnp.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0]
    weights = counts.astype(log_probs.dtype)
    if weight is not None:
        weights = weights * weight[labels]
        losses = losses * weight[labels]
    return jnp.where(counts, jnp.where(is_class, losses, jnp.nan), 0), weights


def _check_classes(input: jax.Array, weight: jax.Array | None) -> int:
    classes = input.shape[-1]
    if weight is not None and weight.shape != (classes,):
        raise UsageError(
            f"class weights of {classes} classes (the last axis) need shape ({classes},), got {weight.shape}"
        )
    return classes


def _weighted(values: jax.Array, weight: jax.Array | None) -> jax.Array:
    return values if weight is None else values * weight
