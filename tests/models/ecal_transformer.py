"""A transformer over calorimeter hits, both sides, for the checkpoint of prachinandi/ecal-transformer-reconstruction.

Tokens (B, T, 4) and a boolean mask (B, T), True where a token is real; a learned class token in front, an encoder of
three pre-norm layers, and a head on the class token: one number an event.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx

from port.nn import TransformerEncoder, TransformerEncoderLayer

FEATURES, HEADS, HIDDEN, LAYERS, DROPOUT = 96, 4, 384, 3, 0.1


class TorchEmbedding(torch.nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.coord_mlp, self.energy_mlp = (
            torch.nn.Sequential(torch.nn.Linear(2, FEATURES), torch.nn.GELU(), torch.nn.Linear(FEATURES, FEATURES))
            for _ in range(2)
        )
        self.norm = torch.nn.LayerNorm(FEATURES)
        self.drop = torch.nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.coord_mlp(tokens[..., :2]) + self.energy_mlp(tokens[..., 2:])))


class TorchEcal(torch.nn.Module):
    """(B, T, 4), (B, T) → (B,)."""

    def __init__(self, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.embed = TorchEmbedding(dropout)
        self.cls = torch.nn.Parameter(torch.zeros(1, 1, FEATURES))
        layer = torch.nn.TransformerEncoderLayer(
            FEATURES, HEADS, HIDDEN, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        # The fast path over nested tensors is not for norm_first; torch says so in a warning unless it is told.
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Sequential(
            torch.nn.LayerNorm(FEATURES),
            torch.nn.Linear(FEATURES, FEATURES),
            torch.nn.GELU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(FEATURES, 1),
        )

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.cls.expand(tokens.shape[0], -1, -1), self.embed(tokens)], dim=1)
        real = torch.cat([mask.new_ones(mask.shape[0], 1), mask], dim=1)
        return self.head(self.encoder(x, src_key_padding_mask=~real)[:, 0]).squeeze(-1)


class Perceptron(nnx.Module):
    def __init__(self, inputs: int, outputs: int, **given: Any) -> None:
        self.up = nnx.Linear(inputs, FEATURES, **given)
        self.out = nnx.Linear(FEATURES, outputs, **given)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.out(jax.nn.gelu(self.up(x), approximate=False))


class FlaxEcal(nnx.Module):
    """(B, T, 4), (B, T) → (B,).

    Args:
        dropout: rate of every dropout.
        norm_first: the checkpoint's network is pre-norm.
        dtype: of the parameters.
        rngs: draws them, and the dropout.
    """

    def __init__(
        self, dropout: float = DROPOUT, *, norm_first: bool = True, dtype: Any = jnp.float32, rngs: nnx.Rngs
    ) -> None:
        given: dict[str, Any] = {"param_dtype": dtype, "rngs": rngs}
        norm = partial(nnx.LayerNorm, FEATURES, epsilon=1e-5, use_fast_variance=False, **given)
        self.coordinates = Perceptron(2, FEATURES, **given)
        self.energies = Perceptron(2, FEATURES, **given)
        self.embedding_norm = norm()
        self.class_token = nnx.Param(jnp.zeros((1, 1, FEATURES), dtype))
        layer = TransformerEncoderLayer(
            FEATURES, HEADS, HIDDEN, dropout, activation="gelu", batch_first=True, norm_first=norm_first, **given
        )
        self.encoder = TransformerEncoder(layer, LAYERS)
        self.head_norm = norm()
        self.head = Perceptron(FEATURES, 1, **given)
        self.dropout = nnx.Dropout(dropout, rngs=rngs if dropout else None)

    def __call__(self, tokens: jax.Array, mask: jax.Array) -> jax.Array:
        x = self.embedding_norm(self.coordinates(tokens[..., :2]) + self.energies(tokens[..., 2:]))
        token = jnp.broadcast_to(self.class_token[...], (tokens.shape[0], 1, FEATURES))
        x = jnp.concatenate([token, self.dropout(x)], axis=1)
        padded = jnp.pad(~mask, ((0, 0), (1, 0)), constant_values=False)
        x = self.head_norm(self.encoder(x, src_key_padding_mask=padded)[:, 0])
        x = self.dropout(jax.nn.gelu(self.head.up(x), approximate=False))
        return self.head.out(x)[:, 0]


NAMES = {
    r"^embed\.coord_mlp\.": "coordinates.",
    r"^embed\.energy_mlp\.": "energies.",
    r"^(coordinates|energies)\.0\.": r"\1.up.",
    r"^(coordinates|energies)\.2\.": r"\1.out.",
    r"^embed\.norm\.": "embedding_norm.",
    r"^cls$": "class_token",
    r"^head\.0\.": "head_norm.",
    r"^head\.1\.": "head.up.",
    r"^head\.4\.": "head.out.",
}
"""The checkpoint's names → the Flax model's; the encoder has torch's."""
