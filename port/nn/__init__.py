"""Flax modules with PyTorch's semantics, for the layers that Flax lacks or implements differently."""

from port.nn.adaptive_softmax import AdaptiveLogSoftmaxWithLoss
from port.nn.attention import MultiheadAttention
from port.nn.bilinear import Bilinear
from port.nn.buffer import Buffer
from port.nn.conv import Conv
from port.nn.conv_transpose import ConvTranspose
from port.nn.dropout import AlphaDropout, FeatureAlphaDropout
from port.nn.embedding import Embedding
from port.nn.embedding_bag import EmbeddingBag
from port.nn.fractional_max_pool import FractionalMaxPool
from port.nn.frozen import Frozen, frozen
from port.nn.generation import decode, generate, prefill
from port.nn.incremental import cached
from port.nn.initializers import mapped, patched, redrawn, torch_bias, torch_kernel, torch_uniform
from port.nn.instance_norm import InstanceNorm
from port.nn.layer_norm import LayerNorm, RMSNorm
from port.nn.linear_cross_entropy import LinearCrossEntropyLoss
from port.nn.logical_axes import by_head, divided, gathered, logical_axes, rules_on
from port.nn.lora import LoRA
from port.nn.named_children import named_children
from port.nn.norm import BatchNorm
from port.nn.on_mesh import load_on_mesh, on_mesh
from port.nn.orthogonal import Orthogonal
from port.nn.per_layer import PerLayer
from port.nn.prelu import PReLU
from port.nn.recurrent import GRU, LSTM, RNN
from port.nn.recurrent_cells import GRUCell, LSTMCell, RNNCell
from port.nn.rrelu import RReLU
from port.nn.saved_arguments import saved_arguments
from port.nn.saved_weights import load_weights
from port.nn.shared_dropout import DropoutMasks, SharedDropout
from port.nn.shared_stream import shared_masks
from port.nn.spectral_norm import SpectralNorm
from port.nn.stacked import partly_stacked, stacked
from port.nn.stochastic_depth import StochasticDepth
from port.nn.tables import Tables
from port.nn.token_cache import TokenCache
from port.nn.torch_linspace import torch_linspace
from port.nn.transformer import Transformer, TransformerDecoder, TransformerEncoder
from port.nn.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer
from port.nn.unknown_start import filled_later, unknown_start
from port.nn.weight_norm import WeightNorm

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveLogSoftmaxWithLoss",
    "AlphaDropout",
    "BatchNorm",
    "Bilinear",
    "Buffer",
    "Conv",
    "ConvTranspose",
    "DropoutMasks",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "FractionalMaxPool",
    "Frozen",
    "GRUCell",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "LinearCrossEntropyLoss",
    "LoRA",
    "MultiheadAttention",
    "Orthogonal",
    "PReLU",
    "PerLayer",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "SharedDropout",
    "SpectralNorm",
    "StochasticDepth",
    "Tables",
    "TokenCache",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "WeightNorm",
    "by_head",
    "cached",
    "decode",
    "divided",
    "filled_later",
    "frozen",
    "gathered",
    "generate",
    "load_on_mesh",
    "load_weights",
    "logical_axes",
    "mapped",
    "named_children",
    "on_mesh",
    "partly_stacked",
    "patched",
    "prefill",
    "redrawn",
    "rules_on",
    "saved_arguments",
    "shared_masks",
    "stacked",
    "torch_bias",
    "torch_kernel",
    "torch_linspace",
    "torch_uniform",
    "unknown_start",
]
