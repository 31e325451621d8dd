"""An encoder of padded sequences with nn.MultiheadAttention and a mask."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from port.nn import MultiheadAttention

from .fault import Fault, Twin, drawn

WIDTH = 12


class Encoder(nn.Module):
    """(N, L, 12) and a mask (N, L), true where there is something → (N, L, 12)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x, key_padding_mask=~mask)
        return self.fc(nn.functional.elu(self.norm(x + attended)))


class FlaxEncoder(nnx.Module):
    """The same."""

    def __init__(self, *, negates: bool = True, masks: bool = True, heads: int = 3, **options: Any) -> None:
        rngs = nnx.Rngs(0)
        self.attention = MultiheadAttention(WIDTH, heads, batch_first=True, rngs=rngs)
        self.norm = nnx.LayerNorm(WIDTH, epsilon=1e-5, use_fast_variance=False, rngs=rngs)
        self.fc = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.negates, self.masks, self.keep, self.act = (
            negates,
            masks,
            options.get("keep", 1),
            options.get("act", jax.nn.elu),
        )

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        blocked = (~mask if self.negates else mask) if self.masks else None
        attended, _ = self.attention(x, x, x, key_padding_mask=blocked)
        return self.fc(self.act(self.norm(self.keep * x + attended)))


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([3, 5, 2])
    return drawn(3, 5, WIDTH), torch.arange(5)[None] < torch.tensor([3, 4, 2])[:, None] + 0 * lengths[:, None]


ENCODER = Twin("Encoder", Encoder, FlaxEncoder, padded)

FAULTS = (
    Fault("mask reversed", ENCODER, "attention", ("mask-reversed",), {"negates": False}),
    Fault("mask missing", ENCODER, "attention", ("mask-missing",), {"masks": False}),
    Fault("number of heads", ENCODER, "attention", ("number-of-heads",), {"heads": 2}),
    Fault("residual missing", ENCODER, "norm", ("addition-missing",), {"keep": 0}),
    Fault("residual twice", ENCODER, "norm", ("added-twice",), {"keep": 2}),
    Fault("another activation", ENCODER, "fc", ("another-activation",), {"act": jnp.tanh}),
)
