"""Pairs of models written apart, where one side holds in one tensor or layer what the other holds in several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from jax.experimental import rnn

VOCABULARY, WIDTH, HEADS = 12, 8, 2


class TorchShards(torch.nn.Module):
    """An embedding in shards, and two linear layers over the positions."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(3):
            self.register_parameter(f"shard_{number}", torch.nn.Parameter(torch.randn(VOCABULARY // 3, WIDTH)))
        self.mix_in, self.mix_out = torch.nn.Linear(6, 5), torch.nn.Linear(5, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        table = torch.cat([self.get_parameter(f"shard_{number}") for number in range(3)])
        x = table[ids]  # (N, 6, WIDTH)
        return x + self.mix_out(torch.tanh(self.mix_in(x.mT))).mT


class LinenShards(linen.Module):
    """The same with one table, and with weights and biases of its own in place of layers."""

    @linen.compact
    def __call__(self, ids: Any) -> Any:
        x = self.param("table", linen.initializers.normal(), (VOCABULARY, WIDTH))[ids]
        y = jnp.einsum("npc,pq->nqc", x, self.param("w1", linen.initializers.normal(), (6, 5)))
        y = jnp.tanh(y + self.param("b1", linen.initializers.zeros, (1, 5, 1)))
        y = jnp.einsum("npc,pq->nqc", y, self.param("w2", linen.initializers.normal(), (5, 6)))
        return x + y + self.param("b2", linen.initializers.zeros, (1, 6, 1))


class TorchAttention(torch.nn.Module):
    """Attention whose projections of one input are one layer, with a learned scale for queries."""

    def __init__(self, *, is_cross: bool) -> None:
        super().__init__()
        if is_cross:
            self.q_proj, self.kv_proj = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 2 * WIDTH)
        else:
            self.in_proj = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.is_cross, self.out_proj = is_cross, torch.nn.Linear(WIDTH, WIDTH)
        self.scale = torch.nn.Parameter(torch.ones(WIDTH // HEADS))

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            (self.q_proj(x), *self.kv_proj(other).chunk(2, -1)) if self.is_cross else self.in_proj(x).chunk(3, -1)
        )
        query, key, value = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in (query, key, value))
        y = torch.nn.functional.scaled_dot_product_attention(query * self.scale, key, value)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class TorchReader(torch.nn.Module):
    """A block that attends to itself, and then to something else; positions are a table of sines in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", torch.exp(-torch.arange(WIDTH // 2)))
        self.itself, self.cross = TorchAttention(is_cross=False), TorchAttention(is_cross=True)

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(x.shape[1])[:, None] * torch.exp(-torch.arange(WIDTH // 2, dtype=torch.float32))
        x = x + torch.cat([angles.sin(), angles.cos()], -1)
        x = x + self.itself(x, x)
        return x + self.cross(x, other)


class QueryScale(linen.Module):
    @linen.compact
    def __call__(self, query: Any) -> Any:
        return query * self.param("scale", linen.initializers.ones, (query.shape[-1],))


def scaled_attention(query: Any, *others: Any, **options: Any) -> Any:
    return linen.dot_product_attention(QueryScale()(query), *others, **options)


class LinenReader(linen.Module):
    """The same with Linen's attention, whose queries, keys and values are layers of their own."""

    @linen.compact
    def __call__(self, x: Any, other: Any) -> Any:
        angles = jnp.arange(x.shape[1])[:, None] * jnp.exp(-jnp.arange(WIDTH // 2, dtype=jnp.float32))
        x = x + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
        x = x + linen.MultiHeadDotProductAttention(HEADS, attention_fn=scaled_attention)(x)
        return x + linen.MultiHeadDotProductAttention(HEADS, attention_fn=scaled_attention)(x, other)


class TorchListener(torch.nn.Module):
    """A recurrent layer both ways, in a module of its own whose norm has a constant beside its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.lstm = TorchOwnNorm(), torch.nn.LSTM(WIDTH, 3, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(self.norm(x))[0]


class TorchOwnNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = torch.nn.Parameter(torch.zeros(WIDTH)), torch.nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("width", torch.tensor([float(WIDTH)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x - x.sum(-1, keepdim=True) / self.width
        return x * torch.rsqrt((x**2).sum(-1, keepdim=True) / self.width + 1e-6) * (1 + self.scale) + self.bias


class LinenOwnNorm(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        scale, bias = (self.param(name, linen.initializers.zeros, (WIDTH,)) for name in ("scale", "bias"))
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * (1 + scale) + bias


class LinenListener(linen.Module):
    """The same with all weights and biases of the recurrent layer in one vector, as cuDNN takes them."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = LinenOwnNorm()(x)
        weights = self.param("weights", rnn.init_lstm_weight, WIDTH, 3, 1, True)
        starts = jnp.zeros((2, len(x), 3), x.dtype)
        lengths = np.full(len(x), x.shape[1], np.int32)
        unpacked = rnn.unpack_lstm_weights(weights, WIDTH, 3, 1, True)
        return rnn.lstm_ref(x, starts, starts, *unpacked, lengths, WIDTH, 3, 1, 0.0, True)[0]
