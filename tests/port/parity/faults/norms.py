"""A norm of numbers far from zero, and a standard deviation taken by hand."""

from __future__ import annotations

import jax
import torch
from flax import nnx
from torch import nn

from .fault import Fault, Twin, drawn

WIDTH = 8


class Norms(nn.Module):
    """(N, 8) → (N, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc(self.norm(x))
        return self.head(h / h.std(-1, keepdim=True))


class FlaxNorms(nnx.Module):
    """The same."""

    def __init__(self, *, fast: bool = False, ddof: int = 1) -> None:
        rngs = nnx.Rngs(0)
        self.norm = nnx.LayerNorm(WIDTH, epsilon=1e-5, use_fast_variance=fast, rngs=rngs)
        self.fc, self.head = nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)
        self.ddof = ddof

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.fc(self.norm(x))
        return self.head(h / h.std(-1, keepdims=True, ddof=self.ddof))


NORMS = Twin("Norms", Norms, FlaxNorms, lambda: 1e4 + drawn(6, WIDTH))

FAULTS = (
    Fault("fast variance", NORMS, "norm", ("fast-variance",), {"fast": True}),
    Fault("biased deviation", NORMS, "head", ("biased-variance",), {"ddof": 0}),
)
