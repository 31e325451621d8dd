"""A model with a fixed filterbank, in torch's and in Flax's words: of its parameters not all are trained."""

from __future__ import annotations

import jax
import torch
from flax import nnx
from torch import nn

from port.nn import Frozen, frozen


class TorchBands(nn.Module):
    """The bank and the scale require no gradient, and stand in the optimizer's groups like all others."""

    def __init__(self) -> None:
        super().__init__()
        self.bank = nn.Linear(6, 4, bias=False).requires_grad_(False)
        self.scale = nn.Parameter(torch.rand(4) + 0.5, requires_grad=False)
        self.mid = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.mid(self.bank(x) * self.scale)))


class TorchOpen(TorchBands):
    """The same as a class that freezes nothing: a script does, or takes its head alone."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(True)


class FlaxBands(nnx.Module):
    """Frozen where torch's is."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.bank = frozen(nnx.Linear(6, 4, use_bias=False, rngs=rngs))
        self.scale = Frozen(jax.random.uniform(rngs.params(), (4,)))
        self.mid = nnx.Linear(4, 4, rngs=rngs)
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(jax.numpy.tanh(self.mid(self.bank(x) * self.scale[...])))


class FlaxPlain(FlaxBands):
    """All of it `nnx.Param`."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        super().__init__(rngs=rngs)
        self.bank = nnx.Linear(6, 4, use_bias=False, rngs=rngs)
        self.scale = nnx.Param(self.scale[...])
