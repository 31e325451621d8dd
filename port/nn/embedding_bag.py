"""EmbeddingBag, which Flax lacks: sums, means or maxima of bags of embeddings."""

from __future__ import annotations

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
        self.embedding = nnx.Param(initial_table(rngs, num_embeddings, embedding_dim, self.padding_idx, param_dtype))

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
        bag, bags = self._bag_of_each(indices, offsets)
        indices = indices.ravel()
        rows = look_up(self.embedding[...], indices, self.padding_idx, self.scale_grad_by_freq)
        if self.padding_idx is not None:
            bag = jnp.where(indices == self.padding_idx, bags, bag)  # of no bag
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.ravel()[:, None].astype(rows.dtype)
        result = _largest(rows, bag, bags) if self.mode == "max" else jax.ops.segment_sum(rows, bag, bags)
        if self.mode == "mean":
            size = jax.ops.segment_sum(jnp.ones(bag.shape, rows.dtype), bag, bags)
            result = result / jnp.maximum(size, 1)[:, None]
        return result.astype(self.dtype or rows.dtype)

    def _bag_of_each(self, indices: jax.Array, offsets: jax.Array | None) -> tuple[jax.Array, int]:
        """Return the bag of each index, and the number of bags; indices past the last bag get that number."""
        if offsets is None:
            bags, length = indices.shape
            return jnp.repeat(jnp.arange(bags), length), bags
        bag = jnp.searchsorted(offsets, jnp.arange(len(indices)), side="right") - 1
        return bag, len(offsets) - self.include_last_offset


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
