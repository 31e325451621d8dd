"""Pairs of models written apart, of which one side keeps among its variables what the other ties, computes or draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import linen

WIDTH = 8

# %% An encoder whose head has the embedding's weights and a bias of its own


class TorchMasked(torch.nn.Module):
    """A head that is a linear layer; dropout is a layer of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.dropout = torch.nn.Embedding(17, 12), torch.nn.Dropout(0.3)
        self.query, self.key, self.value = (torch.nn.Linear(12, 12) for _ in range(3))
        self.decoder = torch.nn.Linear(12, 17)
        self.decoder.weight = self.words.weight

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        weights = self.dropout((self.query(x) @ self.key(x).mT / 12**0.5).softmax(-1))
        return self.decoder(x + weights @ self.value(x))


class LinenDecoder(linen.Module):
    """It has the bias, and is given the weights."""

    @linen.compact
    def __call__(self, x: Any, table: Any) -> Any:
        return x @ table.T + self.param("bias", linen.initializers.zeros, (17,))


class LinenMasked(linen.Module):
    """It drops attention weights in a function of its own, for which it asks for random numbers."""

    @linen.compact
    def __call__(self, ids: Any, deterministic: bool = True) -> Any:
        words = linen.Embed(17, 12, name="words")
        x = words(ids)
        query, key, value = (linen.Dense(12, name=name)(x) for name in ("query", "key", "value"))
        weights = linen.softmax(query @ key.mT / 12**0.5)
        if not deterministic:
            kept = jax.random.bernoulli(self.make_rng("dropout"), 0.7, weights.shape)
            weights = jnp.where(kept, weights / 0.7, 0.0)
        return LinenDecoder(name="decoder")(x + weights @ value, words.embedding)


# %% What one side computes once and keeps, and the other does not save


class TorchRelative(torch.nn.Module):
    """A bias for each distance of two places; the distances are a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.table = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Parameter(torch.randn(9, 1))
        places = torch.arange(5)
        self.register_buffer("distances", places[:, None] - places[None, :] + 4, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table[self.distances][..., 0].softmax(-1) @ self.value(x)


class LinenRelative(linen.Module):
    """It keeps them, and a mask that lets all be seen, among its variables."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        places = jnp.arange(5)
        distances = self.variable("constants", "distances", lambda: places[:, None] - places[None, :] + 4).value
        mask = self.variable("constants", "mask", lambda: jnp.zeros((5, 5))).value
        bias = linen.Embed(9, 1, name="bias")(distances)[..., 0]
        return linen.softmax(bias + mask) @ linen.Dense(WIDTH, name="value")(x)
