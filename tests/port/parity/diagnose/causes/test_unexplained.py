"""What is said of a difference whose cause was not found."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch
from flax import nnx
from torch import nn

import port


class Torch(nn.Module):
    """A table that is read along the features."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.one(x)
        h = torch.cat([h[:, :2], h[:, 2:].erfinv().nan_to_num()], 1)
        return self.two(h)


class Flax(nnx.Module):
    """The same, but for what is done to the last two features."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.one, self.two = nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x: jnp.ndarray) -> jnp.ndarray:
        h = self.one(x)
        return self.two(jnp.concatenate([h[:, :2], jnp.cos(h[:, 2:] * h[:, :2])], 1))


@pytest.mark.sweep
def test_where_and_in_which_code_is_said() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        theirs, given = Torch(), torch.randn(5, 4) / 10
    ours = Flax()
    port.load(ours, theirs)
    report = port.check(theirs, ours, given)
    assert report.causes == ()
    said = " ".join(report.hints)
    assert "Along axis 1 those at 2, 3 alone do, 2 of 4." in said
    assert "test_unexplained.py" in said
    assert "erfinv" in said
