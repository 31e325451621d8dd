"""torchvision's own layers and their twins: outputs, and the gradients of inputs and parameters, in float64."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest
import torch
from flax import nnx
from torchvision.models.convnext import LayerNorm2d

import port
from models.agreement import (
    AGREES,
    VISIBLE,
    channels_last,
    difference,
    differences,
    output_of,
    random,
    randomise,
    run_nnx,
    run_torch,
    worst,
)
from port.mapping import between
from port.pairs import build_twin


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


IMAGES = random(2, 7, 3, 5)


class Theirs(torch.nn.Module):
    """(N, C, H, W) → (N, C), so that both sides' results are laid out alike."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = LayerNorm2d(7, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.norm(x)).mean((2, 3))


class Ours(nnx.Module):
    """(N, H, W, C) → (N, C)."""

    def __init__(self, norm: nnx.LayerNorm) -> None:
        self.norm = norm

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.norm(x)).mean((1, 2))


def test_layer_norm_of_images() -> None:
    theirs = randomise(Theirs())
    ours = Ours(build_twin(theirs.norm, param_dtype=jnp.float64))
    assert type(ours.norm) is nnx.LayerNorm
    port.load(ours, theirs)
    seen = differences(run_torch(theirs, IMAGES), run_nnx(ours, channels_last(IMAGES)), between(theirs, ours))
    assert worst(seen)[1] <= AGREES, worst(seen)


def test_another_epsilon_is_seen() -> None:
    theirs = randomise(Theirs())
    ours = Ours(build_twin(LayerNorm2d(7), param_dtype=jnp.float64))
    port.load(ours, theirs)
    assert difference(output_of(ours, channels_last(IMAGES)), run_torch(theirs, IMAGES).output) > VISIBLE
