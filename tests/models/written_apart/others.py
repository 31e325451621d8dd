"""Recurrent, tabular and other models, each written twice in the ways in which people write them on either side."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import linen, nnx
from torch import nn

# %% Recurrent layers: one module in torch, cells in Flax


class TorchSpeech(nn.Module):
    """Two layers of an LSTM, and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 7, num_layers=2, batch_first=True)
        self.gru = nn.GRU(7, 7, batch_first=True)
        self.out = nn.Linear(7, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.gru(self.lstm(x)[0])[0])


class LinenSpeech(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.RNN(linen.OptimizedLSTMCell(7))(x)
        x = linen.RNN(linen.OptimizedLSTMCell(7))(x)
        x = linen.RNN(linen.GRUCell(7))(x)
        return linen.Dense(3)(x)


class TorchTagger(nn.Module):
    """A bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.lstm = nn.LSTM(5, 6, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(12, 4)

    def forward(self, ids: Any) -> Any:
        return self.hidden2tag(self.lstm(self.embedding(ids))[0])


class NnxTagger(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        def layer() -> nnx.RNN:
            return nnx.RNN(nnx.OptimizedLSTMCell(5, 6, rngs=rngs))

        self.words = nnx.Embed(11, 5, rngs=rngs)
        self.encoder = nnx.Bidirectional(layer(), layer())
        self.tags = nnx.Linear(12, 4, rngs=rngs)

    def __call__(self, ids: Any) -> Any:
        return self.tags(self.encoder(self.words(ids)))


# %% Recommendations: tables of one size that only their inputs tell apart, and two towers of layers


class TorchDLRM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(9, 4, mode="sum") for _ in range(3))
        self.bot_l = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
        self.top_l = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, dense: Any, sparse: Any) -> Any:
        x = self.bot_l(dense)
        rows = [table(sparse[:, place : place + 1]) for place, table in enumerate(self.emb_l)]
        features = torch.stack([x, *rows], 1)
        products = features @ features.transpose(1, 2)
        i, j = torch.tril_indices(4, 4, -1)
        return self.top_l(torch.cat([x, products[:, i, j]], 1))


class LinenDLRM(linen.Module):
    @linen.compact
    def __call__(self, dense: Any, sparse: Any) -> Any:
        rows = [linen.Embed(9, 4, name=f"table_{place}")(sparse[:, place]) for place in range(3)]
        x = linen.relu(linen.Dense(4)(linen.relu(linen.Dense(8)(dense))))
        features = jnp.stack([x, *rows], 1)
        products = features @ features.swapaxes(1, 2)
        i, j = jnp.tril_indices(4, -1)
        x = jnp.concatenate([x, products[:, i, j]], 1)
        for width in (8, 8):
            x = linen.relu(linen.Dense(width)(x))
        return linen.Dense(1)(x)


# %% Attention of torch's own, and layers written out in nnx


class TorchEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x: Any) -> Any:
        return self.encoder(x)


class NnxEncoderLayer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.q, self.k, self.v = (nnx.Linear(8, 8, rngs=rngs) for _ in range(3))
        self.o = nnx.Linear(8, 8, rngs=rngs)
        self.first, self.second = nnx.Linear(8, 12, rngs=rngs), nnx.Linear(12, 8, rngs=rngs)
        self.norms = nnx.List([nnx.LayerNorm(8, epsilon=1e-5, rngs=rngs) for _ in range(2)])

    def __call__(self, x: Any) -> Any:
        q, k, v = (layer(x).reshape(*x.shape[:2], 2, 4) for layer in (self.q, self.k, self.v))
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0)
        x = self.norms[0](x + self.o(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)))
        return self.norms[1](x + self.second(jax.nn.gelu(self.first(x), approximate=False)))


class NnxEncoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([NnxEncoderLayer(rngs) for _ in range(2)])

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


# %% What only activations decide, and what nothing does


class TorchTwoBranches(nn.Module):
    """Two branches of one shape with names that say nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.left(x)) * torch.sigmoid(self.right(x)))


class LinenTwoBranches(linen.Module):
    """It calls the gate first."""

    activation: Any = linen.tanh

    @linen.compact
    def __call__(self, x: Any) -> Any:
        gate = linen.sigmoid(linen.Dense(6)(x))
        return linen.Dense(2)(self.activation(linen.Dense(6)(x)) * gate)


class TorchAlikeBranches(nn.Module):
    """Two branches of two layers that may really be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.right = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, x: Any) -> Any:
        return self.left(x) + self.right(x)


class LinenAlikeBranches(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        first, second = linen.Dense(6)(x), linen.Dense(6)(x)
        return linen.Dense(2)(linen.tanh(first)) + linen.Dense(2)(linen.tanh(second))
