"""torch.nn.TransformerEncoder, TransformerDecoder and Transformer: stacks of layers, which Flax lacks.

Torch's encoder has a fast path over nested tensors (``enable_nested_tensor``, ``mask_check``): in evaluation, without
gradients, with a key padding mask alone, it skips the padding and fills it with zeros, to which only the final norm is
applied. The padding of a result then differs between torch's own training and evaluation; elsewhere the two agree. This
encoder has no such path, and computes what torch computes with gradients.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.parameter_metadata import ByPath, set_metadata
from port.nn.transformer_layers import (
    Activation,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    Wrap,
    itself,
    layer_norm,
)

Layer = TypeVar("Layer", bound=nnx.Module)


class TransformerEncoder(nnx.Module):
    """torch.nn.TransformerEncoder: ``num_layers`` copies of a layer, one after the other, and a norm.

    As in torch, every copy starts from the same values; each draws its own dropout.

    Args:
        encoder_layer: the layer to copy.
        num_layers: number of copies.
        norm: applied to the last layer's result.
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        self.layers = nnx.List(copies(encoder_layer, num_layers))
        self.num_layers = num_layers
        self.norm = nnx.data(norm)

    def __call__(
        self,
        src: jax.Array,
        mask: jax.Array | None = None,
        src_key_padding_mask: jax.Array | None = None,
        is_causal: bool | None = None,
    ) -> jax.Array:
        """Encode ``src``; shapes, masks and ``is_causal``: `TransformerEncoderLayer`.

        Without ``is_causal`` torch checks whether the mask is causal. The result is that of the mask either way.
        """
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(nnx.Module):
    """torch.nn.TransformerDecoder: ``num_layers`` copies of a layer, one after the other, and a norm.

    As in torch, every copy starts from the same values; each draws its own dropout.

    Args:
        decoder_layer: the layer to copy.
        num_layers: number of copies.
        norm: applied to the last layer's result.
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        self.layers = nnx.List(copies(decoder_layer, num_layers))
        self.num_layers = num_layers
        self.norm = nnx.data(norm)

    def __call__(
        self,
        tgt: jax.Array,
        memory: jax.Array,
        tgt_mask: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        tgt_key_padding_mask: jax.Array | None = None,
        memory_key_padding_mask: jax.Array | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        """Decode ``tgt``; shapes, masks and hints: `TransformerDecoderLayer`."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(nnx.Module):
    """torch.nn.Transformer: an encoder and a decoder, each with a norm at its end.

    Initial values, from torch.nn.Transformer._reset_parameters: Xavier uniform for every matrix; the rest as in the
    layers.

    Args:
        d_model: features of all sequences.
        nhead: heads of each attention.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: see `TransformerEncoderLayer`, also for the following arguments.
        dropout: rate of each dropout.
        activation: of the feed-forward networks.
        custom_encoder: replaces the encoder; called like `TransformerEncoder`.
        custom_decoder: replaces the decoder; called like `TransformerDecoder`.
        layer_norm_eps: added to the variance by each norm.
        batch_first: batched sequences are (N, L, features), not (L, N, features).
        norm_first: norms come before attention and feed-forward.
        bias: of the attentions, linear layers and norms.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of the parameters.
        metadata: path of a parameter → its metadata, from `port.nn.logical_axes`. ``encoder.layers.norm1.scale`` is
            that of all layers of the encoder.
        wrap: of each attention, before it is called: `port.nn.gathered` for a mesh.
        rngs: for the parameters, and for the dropout if there is one.

    Raises:
        UnknownChoice: an unknown name of an activation.
        UsageError: d_model is not a multiple of nhead, or dropout is not a probability.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
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
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norm = (d_model, layer_norm_eps, bias)
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer, wrap=wrap, **types)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, layer_norm(*norm, **types))
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer, wrap=wrap, **types)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, layer_norm(*norm, **types))
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

        xavier = jax.nn.initializers.glorot_uniform()
        for _, node in nnx.iter_graph(self):
            if isinstance(node, nnx.Param) and node.ndim > 1:
                node[...] = xavier(rngs.params(), node.shape, node.dtype)
        set_metadata(self, metadata)

    def __call__(
        self,
        src: jax.Array,
        tgt: jax.Array,
        src_mask: jax.Array | None = None,
        tgt_mask: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        src_key_padding_mask: jax.Array | None = None,
        tgt_key_padding_mask: jax.Array | None = None,
        memory_key_padding_mask: jax.Array | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        """Decode (T, N, d_model) from (S, N, d_model); N first if ``batch_first``, without N for one sequence.

        Args:
            src: the sequences to encode.
            tgt: the sequences to decode.
            src_mask: of the encoder, (S, S) or (N · nhead, S, S); see `port.nn.MultiheadAttention`.
            tgt_mask: of the decoder, (T, T) or (N · nhead, T, T).
            memory_mask: of the decoder's attention to the encoder's result, (T, S) or (N · nhead, T, S).
            src_key_padding_mask: (N, S), or (S,) for one sequence.
            tgt_key_padding_mask: (N, T), or (T,) for one sequence.
            memory_key_padding_mask: (N, S), or (S,) for one sequence; it does not follow from src_key_padding_mask.
            src_is_causal: the hint that src_mask is causal.
            tgt_is_causal: the hint that tgt_mask is causal.
            memory_is_causal: the hint that memory_mask is causal.

        Returns:
            Shaped as ``tgt``.

        Raises:
            UsageError: src and tgt of different batch sizes, or a wrong number of features.
        """
        batch = 0 if self.batch_first else 1
        if (
            src.shape[-1] != self.d_model
            or tgt.shape[-1] != self.d_model
            or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch])
        ):
            raise UsageError(
                f"Transformer takes src and tgt of {self.d_model} features and one batch size, "
                f"got shapes {src.shape} and {tgt.shape}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(size: int, dtype: Any = jnp.float32) -> jax.Array:
        """The causal mask (size, size) to add to scores: −∞ above the diagonal, 0 elsewhere."""
        return jnp.triu(jnp.full((size, size), -jnp.inf, dtype), 1)


def copies(layer: Layer, count: int) -> list[Layer]:
    """Copy a layer; the copies are equal except for their random streams, so each draws its own dropout.

    Raises:
        UsageError: fewer than one copy.
    """
    if count < 1:
        raise UsageError(f"num_layers must be at least 1, got {count}")
    clones = [nnx.clone(layer) for _ in range(count)]
    for number, clone in enumerate(clones):
        for _, node in nnx.iter_graph(clone):
            if isinstance(node, nnx.RngStream):
                node.key[...] = jax.random.fold_in(node.key[...], number)
    return clones
