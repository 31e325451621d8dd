"""Embedding with PyTorch's options.

flax.nnx.Embed has no padding row, no renormalisation and no scaling by frequency, and a negative index counts from the
end. Without these options, Flax's own layer is exact. torch raises for an index out of range; a compiled function
cannot, so such a row is NaN here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.gradient import scale_gradient


class Embedding(nnx.Module):
    """torch.nn.Embedding: indices (…) → (…, embedding_dim).

    Initial values: N(0, 1), the padding row zeros. Source: torch.nn.Embedding's documentation.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: length of a row.
        padding_idx: a row without gradient; counts from the end when negative.
        max_norm: rows with a larger norm are scaled to it when they are looked up, *in the table itself*, as in torch:
            the call changes the parameter, in evaluation too. A function that takes the table as a plain array must
            return the changed one, like running statistics; `nnx.jit` and `nnx.grad` do.
        norm_type: the p of the p-norm for ``max_norm``.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up.
        dtype: of the result; None is the table's.
        param_dtype: of the table.
        embedding_metadata: of the table, from `port.nn.logical_axes`.
        rngs: for the initial values.

    Raises:
        UsageError: a padding index out of range; at the call, indices that are not integers.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        embedding_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = row_index(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.dtype = dtype
        table = initial_table(rngs, num_embeddings, embedding_dim, self.padding_idx, param_dtype)
        self.embedding = nnx.Param(table, **embedding_metadata)

    def __call__(self, indices: jax.Array) -> jax.Array:
        """Look up rows; an index outside 0 to num_embeddings − 1 gives NaN."""
        if self.max_norm is not None:
            renormalise(self.embedding, indices, self.max_norm, self.norm_type)
        rows = look_up(self.embedding[...], indices, self.padding_idx, self.scale_grad_by_freq)
        return rows.astype(self.dtype or rows.dtype)


def look_up(table: jax.Array, indices: jax.Array, padding_idx: int | None, scale_grad_by_freq: bool) -> jax.Array:
    """Look up rows of a table (rows, width) with torch's gradients: indices (…) → (…, width), NaN if out of range."""
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise UsageError(f"an embedding looks up integers, got {indices.dtype}")
    rows = table.at[indices].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)
    if padding_idx is not None:
        rows = jnp.where((indices == padding_idx)[..., None], jax.lax.stop_gradient(rows), rows)
    if scale_grad_by_freq:
        occurrences = jnp.bincount(indices.ravel(), length=len(table))[indices]
        rows = scale_gradient(rows, 1 / occurrences[..., None].astype(rows.dtype))
    return rows


def renormalise(table: nnx.Param[jax.Array], indices: jax.Array, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``table`` that are looked up and have a norm above ``max_norm`` to it, in place.

    Source: torch.embedding_renorm_, with its 1e-7. Gradients are those with respect to the scaled rows.
    """
    rows = jax.lax.stop_gradient(table[...])
    norms = jnp.linalg.norm(rows, norm_type, axis=-1, keepdims=True)
    looked_up = jnp.zeros(len(rows), bool).at[indices.ravel()].set(True, mode="drop", wrap_negative_indices=False)
    scaled = rows * (max_norm / (norms + 1e-7))
    after = jnp.where(looked_up[:, None] & (norms > max_norm), scaled, rows)
    # The scaled value, with the parameter's own gradient.
    table[...] = after + (table[...] - rows)


def row_index(padding_idx: int | None, rows: int) -> int | None:
    """Return a padding index counted from the start."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise UsageError(f"padding_idx {padding_idx} is no row of a table of {rows}")
    return padding_idx % rows


def initial_table(rngs: nnx.Rngs, rows: int, width: int, padding_idx: int | None, dtype: Any) -> jax.Array:
    """Draw a table from N(0, 1), with zeros in the padding row."""
    table = jax.random.normal(rngs.params(), (rows, width), dtype)
    return table if padding_idx is None else table.at[padding_idx].set(0)
