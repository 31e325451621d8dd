"""A stride on another convolution is told at the first, though what is behind it then fits the model no more."""

from __future__ import annotations

import jax
import pytest
import torch
from flax import nnx
from torch import nn

import port


class Torch(nn.Module):
    """A residual block that halves the image at its first convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 1, 1)
        self.skip = nn.Conv2d(3, 4, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.skip(x) + self.two(self.one(x).relu())


class Flax(nnx.Module):
    """The same, at its second."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.one = nnx.Conv(3, 4, (3, 3), strides=1, padding=1, rngs=rngs)
        self.two = nnx.Conv(4, 4, (3, 3), strides=2, padding=1, rngs=rngs)
        self.skip = nnx.Conv(3, 4, (1, 1), strides=2, padding=0, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.skip(x) + self.two(nnx.relu(self.one(x)))


@pytest.mark.sweep
def test_a_stride_on_the_other_convolution() -> None:
    theirs, ours = Torch(), Flax()
    port.load(ours, theirs)
    report = port.check(theirs, ours, torch.randn((2, 3, 8, 8), generator=torch.Generator().manual_seed(1)))
    assert report.first is not None
    assert report.first.layer == "one"
    assert [cause.kind for cause in report.causes] == ["stride"]
