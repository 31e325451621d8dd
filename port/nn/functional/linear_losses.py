"""A linear layer fused with its cross entropy, so that the logits of a large vocabulary never exist all at once.

Source of the formula: torch.nn.functional.linear_cross_entropy.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.nn.functional.classification_losses import cross_entropies
from port.nn.functional.reduction import check_reduction, reduce_weighted


def linear_cross_entropy(
    input: jax.Array,
    linear_weight: jax.Array,
    target: jax.Array,
    *,
    linear_bias: jax.Array | None = None,
    weight: jax.Array | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    chunk_size: int | str | None = None,
) -> jax.Array:
    """`cross_entropy` of input · linear_weight + linear_bias.

    Args:
        input: (…, in_features).
        linear_weight: a kernel (in_features, C); or (in_features, *out_features, C), for a class at each of several
            positions. torch's is (C, *out_features, in_features).
        target: labels (…, *out_features), or probabilities (…, *out_features, C).
        linear_bias: (*out_features, C).
        weight: a factor for each class, (C,).
        reduction: ``"none"`` for the shape (…, *out_features), ``"mean"`` or ``"sum"``.
        ignore_index: the label of rows to leave out; None for −100.
        label_smoothing: the fraction of the target that is spread evenly over the classes.
        chunk_size: rows whose logits exist at the same time, forward and backward; with ``"auto"`` they take about the
            memory of ``input``; None for all. The result is the same up to rounding.

    Raises:
        UsageError: as `cross_entropy`; an ``ignore_index`` together with probabilities; shapes that do not match; a
            chunk_size that is not a positive number.
    """
    check_reduction(reduction)
    in_features, *outputs = linear_weight.shape
    if not outputs or input.shape[-1:] != (in_features,):
        raise UsageError(
            f"an input (…, in_features) needs a linear_weight (in_features, …, C); got {input.shape} and "
            f"{linear_weight.shape}"
        )
    if linear_bias is not None and linear_bias.shape != tuple(outputs):
        raise UsageError(
            f"a linear_weight {linear_weight.shape} needs a bias {tuple(outputs)}, got {linear_bias.shape}"
        )
    probabilities = jnp.issubdtype(target.dtype, jnp.floating)
    if probabilities and ignore_index is not None:
        raise UsageError(f"ignore_index ({ignore_index}) has no meaning for class probabilities")
    ignored = -100 if ignore_index is None else ignore_index

    def of_rows(input: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = jnp.tensordot(input, linear_weight, axes=1)
        logits = logits if linear_bias is None else logits + linear_bias
        return cross_entropies(logits, target, weight, ignore_index=ignored, label_smoothing=label_smoothing)

    rows = math.prod(input.shape[:-1])
    size = _rows_at_a_time(chunk_size, rows, math.prod(outputs) / in_features)
    if size >= rows:
        return reduce_weighted(*of_rows(input, target), reduction)

    leading = input.shape[:-1]
    if target.shape[: len(leading)] != leading:
        raise UsageError(f"an input {input.shape} needs targets that start with {leading}; got {target.shape}")
    target = target.reshape(rows, *target.shape[len(leading) :])
    chunks = tuple(_in_chunks(array, size) for array in (input.reshape(rows, in_features), target))
    # Without the checkpoint, every chunk's logits would be kept for the backward pass.
    losses, weights = (
        array.reshape(-1, *array.shape[2:])[:rows].reshape(*leading, *array.shape[2:])
        for array in jax.lax.map(jax.checkpoint(lambda chunk: of_rows(*chunk)), chunks)
    )
    return reduce_weighted(losses, weights, reduction)


def _rows_at_a_time(chunk_size: int | str | None, rows: int, growth: float) -> int:
    """Return the rows of a chunk; ``growth`` is the length of a row of logits over that of the input."""
    if chunk_size is None:
        return rows
    if chunk_size == "auto":
        return max(1, math.ceil(rows / max(1, math.ceil(growth))))
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise UsageError(f"chunk_size must be a positive number of rows, 'auto' or None; got {chunk_size!r}")
    return chunk_size


def _in_chunks(array: jax.Array, size: int) -> jax.Array:
    """(rows, …) → (chunks, size, …), padded with zeros."""
    missing = -len(array) % size
    array = jnp.pad(array, ((0, missing), *((0, 0) for _ in array.shape[1:])))
    return array.reshape(-1, size, *array.shape[1:])
