"""Losses of distances between embeddings, and of pairs: cosine and hinge embedding, margin ranking, triplets.

A hinge's gradient is 0 at its edge, as in torch 2.15. Formulas: the documentation of torch.nn's class of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.distance import pairwise_distance
from port.nn.functional.reduction import reduce_losses

EPSILON = float(np.float32(1e-12))
"""Of the cosine: the float32 constant of torch's C++, used for every dtype of the input."""

Distance = Callable[[jax.Array, jax.Array], jax.Array]


def cosine_embedding_loss(
    input1: jax.Array, input2: jax.Array, target: jax.Array, *, margin: float = 0.0, reduction: str = "mean"
) -> jax.Array:
    """1 − cos for a target of 1, max(0, cos − margin) for −1; cos = x·y / √((x·x + ε)(y·y + ε)) with ε = 1e−12.

    `optax.cosine_distance` is the first case, with ε in another place.

    Args:
        input1: embeddings x, (…, D).
        input2: embeddings y, (…, D).
        target: 1 or −1, (…); any other value gives 0.
        margin: the largest cosine of dissimilar pairs without a loss, −1 to 1.
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or shapes that do not match.
    """
    if input1.shape != input2.shape or target.shape != input1.shape[:-1]:
        raise UsageError(
            "cosine_embedding_loss takes embeddings (…, D) twice and targets (…); "
            f"got {input1.shape}, {input2.shape}, {target.shape}"
        )
    squares = [jnp.square(x).sum(axis=-1) + EPSILON for x in (input1, input2)]
    cosine = (input1 * input2).sum(axis=-1) / jnp.sqrt(squares[0] * squares[1])
    losses = jnp.where(target == 1, 1 - cosine, jnp.where(target == -1, jax.nn.relu(cosine - margin), 0))
    return reduce_losses(losses, reduction)


def hinge_embedding_loss(
    input: jax.Array, target: jax.Array, *, margin: float = 1.0, reduction: str = "mean"
) -> jax.Array:
    """input for a target of 1, max(0, margin − input) for −1; any other target gives the sum of both, as in torch.

    Args:
        input: distances, any shape.
        target: 1 or −1, broadcast.
        margin: the smallest distance of dissimilar pairs without a loss.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction.
    """
    apart = jnp.where(target != 1, jax.nn.relu(margin - input), 0)
    return reduce_losses(apart + jnp.where(target != -1, input, 0), reduction)


def margin_ranking_loss(
    input1: jax.Array, input2: jax.Array, target: jax.Array, *, margin: float = 0.0, reduction: str = "mean"
) -> jax.Array:
    """max(0, margin − target·(input1 − input2)).

    Args:
        input1: scores, any shape.
        input2: the other scores, with the same number of axes; lengths broadcast.
        target: 1 where input1 should be ranked higher, −1 where input2.
        margin: by how much.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, or different numbers of axes.
    """
    _check_axes(input1, input2, target)
    return reduce_losses(jax.nn.relu(margin - target * (input1 - input2)), reduction)


def triplet_margin_loss(
    anchor: jax.Array,
    positive: jax.Array,
    negative: jax.Array,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> jax.Array:
    """max(0, margin + d(anchor, positive) − d(anchor, negative)), d(x, y) = ‖x − y + eps‖ₚ over the last axis.

    Args:
        anchor: embeddings (…, D).
        positive: embeddings that should be near, (…, D).
        negative: embeddings that should be far, (…, D).
        margin: by how much; positive.
        p: the norm's exponent.
        eps: added to each difference.
        swap: take d(positive, negative) in place of d(anchor, negative) where it is smaller.
        reduction: ``"none"`` for the shape (…), ``"mean"`` or ``"sum"``.

    Raises:
        UsageError: an unknown reduction, a margin that is not positive, or different numbers of axes.
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=partial(pairwise_distance, p=p, eps=eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: jax.Array,
    positive: jax.Array,
    negative: jax.Array,
    *,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> jax.Array:
    """`triplet_margin_loss` with a custom distance, (…, D) and (…, D) → distances; the default is the same.

    Raises:
        UsageError: an unknown reduction, a margin that is not positive, or different numbers of axes.
    """
    if margin <= 0:
        raise UsageError(f"triplet losses need a positive margin, got {margin}")
    _check_axes(anchor, positive, negative)
    distance = distance_function or pairwise_distance
    apart = distance(anchor, negative)
    if swap:
        apart = jnp.minimum(apart, distance(positive, negative))
    return reduce_losses(jax.nn.relu(margin + distance(anchor, positive) - apart), reduction)


def _check_axes(*arrays: jax.Array) -> None:
    if len({array.ndim for array in arrays}) != 1:
        raise UsageError(f"this loss needs equal numbers of axes; got shapes {', '.join(str(a.shape) for a in arrays)}")
