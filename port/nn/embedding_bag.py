"""EmbeddingBag, which Flax lacks: sums, means or maxima of bags of embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn.embedding import initial_table, look_up, renormalise, row_index


class EmbeddingBag(nnx.Module):
    """torch.nn.EmbeddingBag: indices (bags, length), or (n,) with offsets (bags,) → (bags, embedding_dim).

    An empty bag is zeros. Initial values: N(0, 1), the padding row zeros. Source: torch.nn.EmbeddingBag's
    documentation.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: length of a row.
        max_norm: as in `port.nn.Embedding`: rows with a larger norm are scaled to it in the table itself.
        norm_type: the p of the p-norm for ``max_norm``.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up; not for ``"max"``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``; the gradient of a maximum goes to the first row that attains it.
        include_last_offset: the offsets have one more element, the number of indices. (If that element is smaller, the
            last bag ends there, as in torch in float32; in float64 torch's last bag extends to the end.)
        padding_idx: a row that is left out of every bag; counts from the end when negative.
        dtype: of the result; None is the table's.
        param_dtype: of the table.
        embedding_metadata: of the table, from `port.nn.logical_axes`.
        rngs: for the initial values.

    Raises:
        UsageError: an unknown mode; a padding index out of range; incompatible options; at the call, incompatible
            shapes.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        embedding_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise UnknownChoice("mode of an EmbeddingBag", mode, ("sum", "mean", "max"))
        if mode == "max" and scale_grad_by_freq:
            raise UsageError("scale_grad_by_freq has no meaning for mode 'max', as in torch")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = row_index(padding_idx, num_embeddings)
        self.dtype = dtype
        table = initial_table(rngs, num_embeddings, embedding_dim, self.padding_idx, param_dtype)
        self.embedding = nnx.Param(table, **embedding_metadata)

    def __call__(
        self, indices: jax.Array, offsets: jax.Array | None = None, per_sample_weights: jax.Array | None = None
    ) -> jax.Array:
        """Look up bags of rows.

        Args:
            indices: (bags, length), or all bags one after another (n,).
            offsets: start of each bag in ``indices`` (n,), ascending from 0.
            per_sample_weights: a factor for each index, of the same shape; only for ``"sum"``.
        """
        if (indices.ndim, offsets is None) not in ((1, False), (2, True)):
            raise UsageError(f"an EmbeddingBag takes indices (bags, length) or (n,) with offsets, got {indices.shape}")
        if per_sample_weights is not None and (self.mode != "sum" or per_sample_weights.shape != indices.shape):
            raise UsageError(
                f"per_sample_weights are for mode 'sum', one for each index of {indices.shape}; "
                f"got {per_sample_weights.shape} in mode {self.mode!r}"
            )
        if self.max_norm is not None:
            renormalise(self.embedding, indices, self.max_norm, self.norm_type)
        rows = look_up(self.embedding[...], indices, self.padding_idx, self.scale_grad_by_freq)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[..., None].astype(rows.dtype)
        is_in = jnp.ones(indices.shape, bool) if self.padding_idx is None else indices != self.padding_idx
        result = self._of_equal_bags(rows, is_in) if offsets is None else self._of_bags(rows, is_in, offsets)
        return result.astype(self.dtype or rows.dtype)

    def _of_equal_bags(self, rows: jax.Array, is_in: jax.Array) -> jax.Array:
        """Reduce rows (bags, length, embedding_dim); ``is_in`` (bags, length) leaves some out."""
        is_in = is_in[..., None]
        if self.mode == "max":
            return _largest_of_equal_bags(rows, is_in)
        total = jnp.where(is_in, rows, 0).sum(1)
        return total / jnp.maximum(is_in.sum(1), 1) if self.mode == "mean" else total

    def _of_bags(self, rows: jax.Array, is_in: jax.Array, offsets: jax.Array) -> jax.Array:
        """Reduce rows (n, embedding_dim); ``is_in`` (n,) leaves some out."""
        bags = len(offsets) - self.include_last_offset
        bag = jnp.searchsorted(offsets, jnp.arange(len(rows)), side="right") - 1
        bag = jnp.where(is_in, bag, bags)  # of no bag
        if self.mode == "max":
            return _largest(rows, bag, bags)
        total = jax.ops.segment_sum(rows, bag, bags)
        if self.mode == "sum":
            return total
        size = jax.ops.segment_sum(jnp.ones(bag.shape, rows.dtype), bag, bags)
        return total / jnp.maximum(size, 1)[:, None]


def _largest_of_equal_bags(rows: jax.Array, is_in: jax.Array) -> jax.Array:
    """Return each column's largest element in each bag, from the first row that attains it; zeros for an empty bag."""
    values = jax.lax.stop_gradient(rows)
    largest = jnp.max(values, axis=1, keepdims=True, initial=-jnp.inf, where=is_in)
    # One more row, of zeros, for bags that have none.
    padded = jnp.concatenate([rows, jnp.zeros_like(rows, shape=(len(rows), 1, rows.shape[2]))], axis=1)
    has_it = jnp.concatenate([is_in & (values == largest), jnp.ones_like(largest, bool)], axis=1)
    return jnp.take_along_axis(padded, has_it.argmax(1, keepdims=True), axis=1)[:, 0]


def _largest(rows: jax.Array, bag: jax.Array, bags: int) -> jax.Array:
    """Return each column's largest element in each bag, from the first row that attains it; zeros for an empty bag."""
    values = jax.lax.stop_gradient(rows)
    largest = jax.ops.segment_max(values, bag, bags)
    # Rows outside all bags are compared with NaN, which equals nothing.
    has_it = values == largest.at[bag].get(mode="fill", fill_value=jnp.nan)
    nowhere = len(rows)
    places = jnp.where(has_it, jnp.arange(nowhere)[:, None], nowhere)
    first = jnp.minimum(jax.ops.segment_min(places, bag, bags), nowhere)
    padded = jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
    return jnp.take_along_axis(padded, first, axis=0)
