"""torch.nn.MultiheadAttention, with torch's parameters, masks and results.

flax.nnx.MultiHeadAttention lacks ``bias_k``, ``bias_v`` and ``add_zero_attn``. In its boolean mask True lets a query
attend, in torch's True blocks it. A row whose keys are all blocked is finite there (the mean of all values), where
torch gives NaN, or 0 (see `MultiheadAttention`). By default one dropout mask serves all sequences and heads. Without a
dropout rate it calls jax.nn.dot_product_attention, whose softmax is float32 even for float64 inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.initializers import torch_kernel


class MultiheadAttention(nnx.Module):
    """torch.nn.MultiheadAttention: softmax(Q Kᵀ / √(embed_dim / num_heads) + masks) V in each head, then a projection.

    Parameters, as torch's: in_proj_weight (3 · embed_dim, embed_dim), or where kdim or vdim differs from embed_dim,
    q_proj_weight (embed_dim, embed_dim), k_proj_weight (embed_dim, kdim), v_proj_weight (embed_dim, vdim); in_proj_bias
    (3 · embed_dim,); bias_k and bias_v (1, 1, embed_dim); out_proj, a flax.nnx.Linear. Initial values, from
    torch.nn.MultiheadAttention._reset_parameters: Xavier uniform, biases 0, bias_k and bias_v N(0, 1/embed_dim);
    out_proj's kernel as torch.nn.Linear's.

    A query row whose keys are all blocked gives NaN with ``need_weights`` and 0 without (out_proj's bias, once
    projected), as in torch while gradients are recorded. Without gradients torch evaluates ``batch_first``
    self-attention with an even number of heads on a fast path, where a boolean mask makes such a row NaN either way and
    the hint ``is_causal`` is ignored.

    Args:
        embed_dim: features of queries and of the result.
        num_heads: heads, which share the features evenly.
        dropout: rate of the dropout on the attention weights; drawn from ``rngs``, off after ``model.eval()``.
        bias: in_proj_bias and out_proj's bias.
        add_bias_kv: learn one more key and value, bias_k and bias_v.
        add_zero_attn: one more key and value of zeros.
        kdim: features of keys; None is embed_dim.
        vdim: features of values; None is embed_dim.
        batch_first: batched sequences are (N, L, features), not (L, N, features).
        dtype: of the computation; None promotes the dtypes of inputs and parameters.
        param_dtype: of the parameters.
        in_proj_weight_metadata: of in_proj_weight, from `port.nn.logical_axes`; and so on for each parameter.
        q_proj_weight_metadata: of q_proj_weight.
        k_proj_weight_metadata: of k_proj_weight.
        v_proj_weight_metadata: of v_proj_weight.
        in_proj_bias_metadata: of in_proj_bias.
        bias_k_metadata: of bias_k.
        bias_v_metadata: of bias_v.
        out_proj_kernel_metadata: of out_proj's kernel.
        out_proj_bias_metadata: of out_proj's bias.
        rngs: draws the parameters, and the dropout where there is one.

    Raises:
        UsageError: embed_dim is not a multiple of num_heads, or dropout is not a probability.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        in_proj_weight_metadata: Mapping[str, Any] = MappingProxyType({}),
        q_proj_weight_metadata: Mapping[str, Any] = MappingProxyType({}),
        k_proj_weight_metadata: Mapping[str, Any] = MappingProxyType({}),
        v_proj_weight_metadata: Mapping[str, Any] = MappingProxyType({}),
        in_proj_bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_k_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_v_metadata: Mapping[str, Any] = MappingProxyType({}),
        out_proj_kernel_metadata: Mapping[str, Any] = MappingProxyType({}),
        out_proj_bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        if min(embed_dim, num_heads) < 1 or embed_dim % num_heads:
            raise UsageError(f"embed_dim must be a multiple of num_heads, got {embed_dim} and {num_heads}")
        if not 0 <= dropout <= 1:
            raise UsageError(f"dropout is a probability, got {dropout}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.add_zero_attn = add_zero_attn
        self.batch_first = batch_first
        self.dtype = dtype
        self.dropout = nnx.Dropout(dropout, rngs=rngs if dropout else None)

        xavier = jax.nn.initializers.glorot_uniform()

        def weight(rows: int, columns: int, metadata: Mapping[str, Any]) -> nnx.Param[jax.Array]:
            return nnx.Param(xavier(rngs.params(), (rows, columns), param_dtype), **metadata)

        def extra(metadata: Mapping[str, Any]) -> nnx.Param[jax.Array]:
            drawn = jax.random.normal(rngs.params(), (1, 1, embed_dim), param_dtype)
            return nnx.Param(drawn / math.sqrt(embed_dim), **metadata)

        packed = self.kdim == self.vdim == embed_dim
        self.in_proj_weight: Any = nnx.data(None)
        self.q_proj_weight: Any = nnx.data(None)
        self.k_proj_weight: Any = nnx.data(None)
        self.v_proj_weight: Any = nnx.data(None)
        if packed:
            self.in_proj_weight = weight(3 * embed_dim, embed_dim, in_proj_weight_metadata)
        else:
            self.q_proj_weight = weight(embed_dim, embed_dim, q_proj_weight_metadata)
            self.k_proj_weight = weight(embed_dim, self.kdim, k_proj_weight_metadata)
            self.v_proj_weight = weight(embed_dim, self.vdim, v_proj_weight_metadata)
        self.in_proj_bias: Any = nnx.data(None)
        if bias:
            self.in_proj_bias = nnx.Param(jnp.zeros(3 * embed_dim, param_dtype), **in_proj_bias_metadata)
        self.bias_k: Any = extra(bias_k_metadata) if add_bias_kv else nnx.data(None)
        self.bias_v: Any = extra(bias_v_metadata) if add_bias_kv else nnx.data(None)
        self.out_proj = nnx.Linear(
            embed_dim,
            embed_dim,
            use_bias=bias,
            kernel_init=torch_kernel(),
            dtype=dtype,
            param_dtype=param_dtype,
            kernel_metadata=out_proj_kernel_metadata,
            bias_metadata=out_proj_bias_metadata,
            rngs=rngs,
        )

    def __call__(
        self,
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        key_padding_mask: jax.Array | None = None,
        need_weights: bool = True,
        attn_mask: jax.Array | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[jax.Array, jax.Array | None]:
        """Attend from L queries to S keys.

        Args:
            query: (L, N, embed_dim), (N, L, embed_dim) if ``batch_first``, or (L, embed_dim) for one sequence.
            key: the same with S for L and kdim features.
            value: the same with S for L and vdim features.
            key_padding_mask: (N, S), or (S,) for one sequence: True blocks a key; a float is added to its scores.
            need_weights: also give the attention weights.
            attn_mask: (L, S), or (N · num_heads, L, S) with the heads of a sequence next to each other: True blocks a
                key for a query; a float is added to the score.
            average_attn_weights: return the mean of the weights over the heads, not each head's.
            is_causal: the hint that attn_mask is causal. As in torch, without weights and key_padding_mask a causal
                mask then replaces attn_mask; otherwise the hint changes nothing.

        Returns:
            The result, shaped as query, and with ``need_weights`` the weights (after dropout), (N, L, S) or
            (N, num_heads, L, S), without N for one sequence; S counts the added keys too. Else None.

        Raises:
            UsageError: a shape not listed above, an integer mask, or ``is_causal`` without attn_mask.
        """
        if is_causal and attn_mask is None:
            raise UsageError(
                "is_causal is a hint about attn_mask, and needs it; generate_square_subsequent_mask makes it"
            )
        batched = self._check(query, key, value)
        dtype = self.dtype or jnp.result_type(query, key, value, self.out_proj.kernel[...])
        inputs = [self._batch_first(x, batched).astype(dtype) for x in (query, key, value)]
        q, k, v = self._heads(*self._project(*inputs))
        scores = (q / math.sqrt(q.shape[-1])) @ k.swapaxes(-1, -2)
        if is_causal and not need_weights and key_padding_mask is None:
            # Torch passes its kernel only the causal flag: added keys are blocked like those to the right.
            scores = jnp.where(jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -jnp.inf)
        else:
            scores = self._masked(scores, inputs[1].shape[1], attn_mask, key_padding_mask, batched)
        weights = self.dropout(_softmax(scores, blocked_is_nan=need_weights))
        out = (weights @ v).swapaxes(1, 2)
        out = self.out_proj(out.reshape(-1, self.embed_dim)).reshape(inputs[0].shape)
        if not batched:
            out = out[0]
        elif not self.batch_first:
            out = out.swapaxes(0, 1)
        if not need_weights:
            return out, None
        if average_attn_weights:
            weights = weights.mean(axis=1)
        return out, weights if batched else weights[0]

    def _check(self, query: jax.Array, key: jax.Array, value: jax.Array) -> bool:
        """Check the shapes; return whether the inputs have a batch axis."""
        features = (self.embed_dim, self.kdim, self.vdim)
        shapes = tuple(x.shape for x in (query, key, value))
        batched = query.ndim == 3
        batch = 0 if self.batch_first else 1
        if (
            query.ndim not in (2, 3)
            or not query.ndim == key.ndim == value.ndim
            or tuple(shape[-1] for shape in shapes) != features
            or key.shape[:-1] != value.shape[:-1]
            or (batched and query.shape[batch] != key.shape[batch])
        ):
            layout = "(N, L, features)" if self.batch_first else "(L, N, features)"
            raise UsageError(
                f"MultiheadAttention takes query, key and value {layout}, or (L, features) of one sequence, with "
                f"{features} features, keys and values of one length; got shapes {', '.join(map(str, shapes))}"
            )
        return batched

    def _batch_first(self, x: jax.Array, batched: bool) -> jax.Array:
        if not batched:
            return x[None]
        return x if self.batch_first else x.swapaxes(0, 1)

    def _project(self, query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Project to queries (N, L, embed_dim), keys and values (N, S, embed_dim), with the added ones at the end."""
        dtype = query.dtype
        if self.in_proj_weight is not None:
            weights = jnp.split(self.in_proj_weight[...].astype(dtype), 3)
        else:
            weights = [w[...].astype(dtype) for w in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)]
        q, k, v = map(_product, (query, key, value), weights)
        if self.in_proj_bias is not None:
            bias_q, bias_k, bias_v = jnp.split(self.in_proj_bias[...].astype(dtype), 3)
            q, k, v = q + bias_q, k + bias_k, v + bias_v
        if self.bias_k is not None:
            k, v = (_append(x, extra[...].astype(dtype)) for x, extra in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = (_append(x, jnp.zeros((1, 1, self.embed_dim), dtype)) for x in (k, v))
        return q, k, v

    def _heads(self, *xs: jax.Array) -> tuple[jax.Array, ...]:
        """Split features into heads: (N, L, embed_dim) → (N, num_heads, L, embed_dim / num_heads)."""
        # Heads before the length: plain batched products, which XLA's CPU does faster than the same by einsum.
        return tuple(x.reshape(*x.shape[:-1], self.num_heads, -1).swapaxes(1, 2) for x in xs)

    def _masked(
        self,
        scores: jax.Array,
        keys: int,
        attn_mask: jax.Array | None,
        key_padding_mask: jax.Array | None,
        batched: bool,
    ) -> jax.Array:
        """Add the masks to scores (N, num_heads, L, S + added keys); the added keys are never masked."""
        n, heads, length, all_keys = scores.shape
        if attn_mask is not None:
            shape: tuple[int, ...] = (length, keys) if attn_mask.ndim == 2 else (n * heads, length, keys)
            mask = _additive("attn_mask", attn_mask, shape, all_keys, scores.dtype)
            scores = scores + (mask if mask.ndim == 2 else mask.reshape(scores.shape))
        if key_padding_mask is not None:
            shape = (n, keys) if batched else (keys,)
            mask = _additive("key_padding_mask", key_padding_mask, shape, all_keys, scores.dtype)
            scores = scores + mask.reshape(n, 1, 1, all_keys)
        return scores


def _additive(name: str, mask: jax.Array, shape: tuple[int, ...], keys: int, dtype: Any) -> jax.Array:
    """Turn a mask into a term of the scores, zero for the added keys: (..., S) → (..., keys)."""
    if mask.shape != shape:
        raise UsageError(f"{name} is of shape {shape} here, got {mask.shape}")
    if mask.dtype == jnp.bool_:
        mask = jnp.where(mask, -jnp.inf, 0)
    elif not jnp.issubdtype(mask.dtype, jnp.floating):
        raise UsageError(f"{name} is boolean (True blocks) or float (added to the scores), got {mask.dtype}")
    return jnp.pad(mask.astype(dtype), [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])])


def _append(x: jax.Array, extra: jax.Array) -> jax.Array:
    """Append one step, the same to each sequence: (N, S, features) and (1, 1, features) → (N, S + 1, features)."""
    return jnp.concatenate([x, jnp.broadcast_to(extra, (x.shape[0], 1, x.shape[2]))], axis=1)


def _product(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Compute x Wᵀ: (N, L, features) and (rows, features) → (N, L, rows)."""
    # A product of two matrices: with three axes XLA on a CPU transposes the result's gradient, and recomputes the
    # gradient of the residual stream, through all later blocks, for each weight.
    return (x.reshape(-1, x.shape[-1]) @ weight.T).reshape(*x.shape[:-1], weight.shape[0])


def _softmax(scores: jax.Array, *, blocked_is_nan: bool) -> jax.Array:
    """Compute the softmax over keys, in float32 at least; a row of only −∞ gives NaN, or zeros with zero gradients."""
    dtype = scores.dtype
    scores = scores.astype(jnp.promote_types(dtype, jnp.float32))
    if blocked_is_nan:
        return jax.nn.softmax(scores).astype(dtype)
    blocked = jnp.all(scores == -jnp.inf, axis=-1, keepdims=True)
    # `where` twice: the branch that is not taken must have no NaN gradient either.
    return jnp.where(blocked, 0, jax.nn.softmax(jnp.where(blocked, 0, scores))).astype(dtype)
