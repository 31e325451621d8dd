"""Connectionist temporal classification: the loss of a sequence with unknown alignment.

Source: A. Graves et al., "Connectionist Temporal Classification", ICML 2006; conventions of torch.nn.CTCLoss.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.reduction import check_reduction

Lengths = Any  # an array, or a sequence of Python numbers


def ctc_loss(
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> jax.Array:
    """−log of the probability of a label sequence, summed over all its alignments to the frames.

    The gradient is torch's (the paper's equation 16): the gradient with respect to the logits below a log_softmax,
    returned as if it were that of ``log_probs``. Passed through log_softmax's own gradient the two are equal; do not
    differentiate with respect to other inputs. A sequence too long for its frames has an infinite loss and a NaN
    gradient. `optax.ctc_loss` takes logits with the batch first, and paddings instead of lengths; there such a sequence
    has a loss of about 1e5.

    Args:
        log_probs: (T, N, C), or (T, C) for one sequence: time, batch, classes, as in torch.
        targets: labels (N, S), padded with anything; or all sequences concatenated, (Σ target_lengths,). A label that
            is not a class gives NaN.
        input_lengths: frames of each sequence, (N,); or () for one.
        target_lengths: labels of each sequence, (N,); or () for one. For concatenated labels, pass Python or numpy
            numbers: with traced lengths each sequence is padded to the length of all.
        blank: the class of "no label".
        reduction: ``"none"`` for the losses (N,); ``"mean"``, over the batch, of the losses divided by their target
            lengths; or ``"sum"``.
        zero_infinity: give impossible sequences a loss and a gradient of 0.

    Returns:
        Losses or loss in the dtype of ``log_probs``; computed in float32 at least.

    Raises:
        UsageError: an unknown reduction, or shapes or lengths that do not match. Traced lengths that do not match give
            NaN instead.
    """
    check_reduction(reduction)
    log_probs, targets = jnp.asarray(log_probs), jnp.asarray(targets)
    batched = log_probs.ndim == 3
    if not batched:
        log_probs, targets = log_probs[:, None], jnp.atleast_2d(targets)
    frames, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise UsageError(f"blank must be one of {classes} classes, got {blank}")
    input_lengths = _lengths(input_lengths, batch, "input_lengths", at_most=frames)
    longest = targets.shape[-1]
    if targets.ndim == 1:
        if isinstance(target_lengths, jax.Array):
            longest = targets.size
        else:
            longest = int(np.max(target_lengths, initial=0))
            if np.sum(target_lengths) != targets.size:
                raise UsageError(f"target_lengths sum to {np.sum(target_lengths)}, but there are {targets.size} labels")
    target_lengths = _lengths(target_lengths, batch, "target_lengths", at_most=longest)
    if targets.ndim == 1:
        targets = _pad(targets, target_lengths, longest)
    if targets.shape[0] != batch:
        raise UsageError(f"a batch of {batch} sequences got targets of shape {targets.shape}")

    wide = log_probs.astype(jnp.promote_types(log_probs.dtype, jnp.float32))
    losses = _losses(wide, targets, input_lengths, target_lengths, blank, zero_infinity)
    if reduction == "mean":
        losses = (losses / jnp.maximum(target_lengths, 1)).mean()
    elif reduction == "sum":
        losses = losses.sum()
    elif not batched:
        losses = losses[0]
    return losses.astype(log_probs.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _losses(
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: jax.Array,
    target_lengths: jax.Array,
    blank: int,
    zero_infinity: bool,
) -> jax.Array:
    losses = _alignment_losses(log_probs, targets, input_lengths, target_lengths, blank)
    return jnp.where(jnp.isinf(losses), 0, losses) if zero_infinity else losses


@_losses.defjvp
def _(blank: int, zero_infinity: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    log_probs, targets, input_lengths, target_lengths = primals
    losses, pull_back = jax.vjp(
        lambda log_probs: _alignment_losses(log_probs, targets, input_lengths, target_lengths, blank), log_probs
    )
    (minus_posterior,) = pull_back(jnp.ones_like(losses))
    gradient = jnp.exp(log_probs) + minus_posterior
    impossible = jnp.isinf(losses)
    gradient = jnp.where(impossible[:, None], 0.0 if zero_infinity else jnp.nan, gradient)
    in_sequence = jnp.arange(len(log_probs))[:, None, None] < input_lengths[:, None]
    gradient = jnp.where(in_sequence, gradient, 0)
    tangent = (gradient * tangents[0]).sum(axis=(0, 2))
    return jnp.where(impossible, 0, losses) if zero_infinity else losses, tangent


def _alignment_losses(
    log_probs: jax.Array, targets: jax.Array, input_lengths: jax.Array, target_lengths: jax.Array, blank: int
) -> jax.Array:
    """Run the paper's forward variables α over blank, label, blank, … label, blank: 2S + 1 states; returns (N,)."""
    frames, batch, classes = log_probs.shape
    padding = jnp.arange(targets.shape[1]) >= target_lengths[:, None]
    is_class = (padding | ((targets >= 0) & (targets < classes))).all(axis=1)
    labels = jnp.where(padding, blank, jnp.clip(targets, 0, classes - 1))
    states = jnp.full((batch, 2 * labels.shape[1] + 1), blank).at[:, 1::2].set(labels)
    # A path may skip the blank between two labels only where they differ.
    can_skip = (states != blank) & (states != jnp.roll(states, 2, axis=1))
    can_skip = can_skip.at[:, :2].set(False)
    of_states = jnp.take_along_axis(log_probs, jnp.broadcast_to(states, (frames, *states.shape)), axis=2)

    def step(alpha: jax.Array, frame: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        time, log_prob = frame
        come = _log_sum_exp(alpha, _shift(alpha, 1), jnp.where(can_skip, _shift(alpha, 2), -jnp.inf))
        return jnp.where((time < input_lengths)[:, None], come + log_prob, alpha), None

    # Before the first frame the path is on a blank; it may stay there or take the first label.
    start = jnp.full(states.shape, -jnp.inf, log_probs.dtype).at[:, 0].set(0)
    alpha, _ = jax.lax.scan(step, start, (jnp.arange(frames), of_states))

    last_blank = jnp.take_along_axis(alpha, 2 * target_lengths[:, None], axis=1)[:, 0]
    last_label = jnp.take_along_axis(alpha, jnp.maximum(2 * target_lengths[:, None] - 1, 0), axis=1)[:, 0]
    losses = -_log_sum_exp(last_blank, jnp.where(target_lengths > 0, last_label, -jnp.inf))
    fits = is_class & (input_lengths <= frames) & (target_lengths <= targets.shape[1])
    return jnp.where(fits, losses, jnp.nan)


def _shift(alpha: jax.Array, by: int) -> jax.Array:
    return jnp.pad(alpha, ((0, 0), (by, 0)), constant_values=-jnp.inf)[:, : alpha.shape[1]]


def _log_sum_exp(*terms: jax.Array) -> jax.Array:
    """log Σ exp; if all terms are −∞ the result is −∞, with gradient 0 where `jnp.logaddexp` gives NaN."""
    largest = jax.lax.stop_gradient(jnp.stack(terms).max(axis=0))
    largest = jnp.where(jnp.isneginf(largest), 0, largest)
    total = sum(jnp.exp(term - largest) for term in terms)
    return jnp.where(total == 0, -jnp.inf, jnp.log(jnp.where(total == 0, 1, total)) + largest)


def _lengths(lengths: Lengths, batch: int, name: str, *, at_most: int) -> jax.Array:
    """Return lengths as an array (N,). Python and numpy numbers are checked; traced ones cannot be."""
    if not isinstance(lengths, jax.Array) and np.max(lengths, initial=0) > at_most:
        raise UsageError(f"{name} must be at most {at_most}, got {np.max(lengths)}")
    array = jnp.atleast_1d(jnp.asarray(lengths))
    if array.shape != (batch,):
        raise UsageError(f"{name} of a batch of {batch} must have shape ({batch},), got {array.shape}")
    return array


def _pad(labels: jax.Array, lengths: jax.Array, longest: int) -> jax.Array:
    """Pad concatenated sequences → (N, longest)."""
    starts = jnp.cumsum(lengths) - lengths
    return labels.at[starts[:, None] + jnp.arange(longest)].get(mode="fill", fill_value=0)
