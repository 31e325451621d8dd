"""torch.nn.TransformerEncoderLayer and TransformerDecoderLayer, which Flax lacks.

Each applies attention and a feed-forward network, with residual connections and layer norms.

Without gradients torch evaluates a ``batch_first`` encoder layer with an even number of heads on a fast path: there a
row whose keys are all blocked by a boolean mask is NaN (here, and in torch with gradients, its attention is 0), the
hint ``is_causal`` is ignored, and an activation torch.nn.GELU(approximate="tanh") is computed with the error function.
These layers compute what torch computes with gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UnknownChoice
from port.nn.attention import MultiheadAttention
from port.nn.initializers import torch_bias, torch_kernel
from port.nn.parameter_metadata import ByPath, set_metadata

Activation = Callable[[jax.Array], jax.Array]
Wrap = Callable[[Any], Callable[..., Any]]
"""Takes a layer, and returns a function to call in its place."""


def gelu(x: jax.Array) -> jax.Array:
    """torch's default GELU, with the error function; jax's default is the tanh approximation."""
    return jax.nn.gelu(x, approximate=False)


def itself(layer: Any) -> Any:
    """Return the layer, which is called as it is."""
    return layer


ACTIVATIONS: dict[str, Activation] = {"relu": jax.nn.relu, "gelu": gelu}


def layer_norm(features: int, eps: float, bias: bool, dtype: Any, param_dtype: Any, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """Return flax's LayerNorm with torch's two-pass variance."""
    return nnx.LayerNorm(
        features,
        epsilon=eps,
        use_bias=bias,
        use_fast_variance=False,
        dtype=dtype,
        param_dtype=param_dtype,
        rngs=rngs,
    )


class TransformerLayer(nnx.Module):
    """Base class of the two layers: self_attn, linear1, dropout, linear2, norm1, norm2, dropout1 and dropout2.

    Args:
        d_model: features of the input, and of the result.
        nhead: heads of the attention.
        dim_feedforward: features between linear1 and linear2.
        dropout: rate of each dropout, that on the attention weights too; off after ``model.eval()``.
        activation: between linear1 and linear2: "relu", "gelu" (with the error function), or any function or module.
        layer_norm_eps: added to the variance by each norm.
        batch_first: batched sequences are (N, L, features), not (L, N, features).
        norm_first: norms come before attention and feed-forward, not after their residuals.
        bias: of the attentions, linear layers and norms.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        metadata: path of a parameter → its metadata, from `port.nn.logical_axes`.
        wrap: of each attention, before it is called: `port.nn.gathered` for a mesh.
        rngs: for the parameters, drawn as torch draws those of each part, and for the dropout if there is one.

    Raises:
        UnknownChoice: an unknown name of an activation.
        UsageError: d_model is not a multiple of nhead, or dropout is not a probability.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        metadata: ByPath = MappingProxyType({}),
        wrap: Wrap = itself,
        rngs: nnx.Rngs,
    ) -> None:
        if isinstance(activation, str):
            if activation not in ACTIVATIONS:
                raise UnknownChoice("activation", activation, ACTIVATIONS)
            activation = ACTIVATIONS[activation]
        self.activation = activation
        self.norm_first = norm_first
        self.wrap = wrap
        types: dict[str, Any] = {"dtype": dtype, "param_dtype": param_dtype, "rngs": rngs}

        def linear(inputs: int, outputs: int) -> nnx.Linear:
            initial: dict[str, Any] = {"kernel_init": torch_kernel(), "bias_init": torch_bias(inputs)}
            return nnx.Linear(inputs, outputs, use_bias=bias, **initial, **types)

        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **types)
        self.linear1 = linear(d_model, dim_feedforward)
        self.dropout = nnx.Dropout(dropout, rngs=rngs if dropout else None)
        self.linear2 = linear(dim_feedforward, d_model)
        self.norm1 = layer_norm(d_model, layer_norm_eps, bias, **types)
        self.norm2 = layer_norm(d_model, layer_norm_eps, bias, **types)
        self.dropout1 = nnx.Dropout(dropout, rngs=rngs if dropout else None)
        self.dropout2 = nnx.Dropout(dropout, rngs=rngs if dropout else None)
        set_metadata(self, metadata)

    def _attend_to_itself(
        self, x: jax.Array, mask: jax.Array | None, key_padding_mask: jax.Array | None, is_causal: bool
    ) -> jax.Array:
        attend = self.wrap(self.self_attn)
        x, _ = attend(x, x, x, key_padding_mask, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return self.dropout1(x)

    def _feed_forward(self, x: jax.Array) -> jax.Array:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(TransformerLayer):
    """torch.nn.TransformerEncoderLayer: self-attention, then the feed-forward network.

    Arguments, parameters and their initial values: `TransformerLayer`.
    """

    def __call__(
        self,
        src: jax.Array,
        src_mask: jax.Array | None = None,
        src_key_padding_mask: jax.Array | None = None,
        is_causal: bool = False,
    ) -> jax.Array:
        """Encode (S, N, d_model), (N, S, d_model) if ``batch_first``, or (S, d_model); the result has the same shape.

        For masks and ``is_causal`` see `port.nn.MultiheadAttention`.

        Raises:
            UsageError: see `port.nn.MultiheadAttention`.
        """
        x = src
        if self.norm_first:
            x = x + self._attend_to_itself(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self.dropout2(self._feed_forward(self.norm2(x)))
        x = self.norm1(x + self._attend_to_itself(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(TransformerLayer):
    """torch.nn.TransformerDecoderLayer: self-attention, attention to the memory, then the feed-forward network.

    Arguments, parameters and their initial values: `TransformerLayer`; here with multihead_attn, norm3 and dropout3.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        metadata: ByPath = MappingProxyType({}),
        wrap: Wrap = itself,
        rngs: nnx.Rngs,
    ) -> None:
        types: dict[str, Any] = {"dtype": dtype, "param_dtype": param_dtype, "rngs": rngs}
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            wrap=wrap,
            **types,
        )
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **types)
        self.norm3 = layer_norm(d_model, layer_norm_eps, bias, **types)
        self.dropout3 = nnx.Dropout(dropout, rngs=rngs if dropout else None)
        set_metadata(self, metadata)

    def __call__(
        self,
        tgt: jax.Array,
        memory: jax.Array,
        tgt_mask: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        tgt_key_padding_mask: jax.Array | None = None,
        memory_key_padding_mask: jax.Array | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        """Decode (T, N, d_model), (N, T, d_model) if ``batch_first``, or (T, d_model); the result has the same shape.

        Args:
            tgt: the sequences to decode.
            memory: the encoder's result, the same with S for T.
            tgt_mask: of the self-attention, (T, T) or (N · nhead, T, T); see `port.nn.MultiheadAttention`.
            memory_mask: of the attention to the memory, (T, S) or (N · nhead, T, S).
            tgt_key_padding_mask: (N, T), or (T,) for one sequence.
            memory_key_padding_mask: (N, S), or (S,) for one sequence.
            tgt_is_causal: the hint that tgt_mask is causal.
            memory_is_causal: the hint that memory_mask is causal.

        Raises:
            UsageError: see `port.nn.MultiheadAttention`.
        """

        def attend_to_memory(x: jax.Array) -> jax.Array:
            x, _ = self.wrap(self.multihead_attn)(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )
            return self.dropout2(x)

        x = tgt
        if self.norm_first:
            x = x + self._attend_to_itself(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + attend_to_memory(self.norm2(x))
            return x + self.dropout3(self._feed_forward(self.norm3(x)))
        x = self.norm1(x + self._attend_to_itself(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + attend_to_memory(x))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))
