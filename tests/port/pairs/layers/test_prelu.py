"""torch.nn.PReLU and what it is paired with."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as flax_linen
from flax import nnx
from torch import nn

TOLERANCE = 1e-12
VISIBLE = 1e-3  # what a planted fault exceeds


def random(*shape: int) -> torch.Tensor:
    x = np.random.default_rng(0).normal(0, 2, shape)
    x.flat[::5] = 0  # where the gradient has a kink
    return torch.from_numpy(x)


@pytest.mark.parametrize(
    ("slopes", "shape"), [(1, (2, 3, 4)), (1, (7,)), (3, (2, 3)), (3, (2, 3, 4, 5)), (3, (2, 3, 4, 2, 2))]
)
def test_G3_the_twin_computes_the_same_with_the_same_gradients(slopes: int, shape: tuple[int, ...], sides: Any) -> None:
    both = sides(nn.PReLU(slopes))
    both.check_weights()
    assert both.difference(random(*shape), steps=1) < TOLERANCE


def test_the_slopes_of_other_channels_are_seen(sides: Any) -> None:
    both = sides(nn.PReLU(3))
    both.twin.negative_slope[...] = both.twin.negative_slope[...][::-1]
    assert both.difference(random(2, 3, 4), steps=1) > VISIBLE


def test_G3_flaxs_own_has_another_gradient_at_zero(sides: Any) -> None:
    make = partial(nnx.PReLU, param_dtype=jnp.float64)
    both = sides(nn.PReLU(), flax=("flax.nnx.PReLU", lambda rngs: make()))
    x = random(2, 3, 4)
    assert both.difference(x + (x == 0), steps=1) < TOLERANCE
    assert both.difference(x, steps=1) > VISIBLE


def test_linens_prelu(sides: Any, linen: Any) -> None:
    layer, module = sides(nn.PReLU()).layer, flax_linen.PReLU(param_dtype=jnp.float64)
    x = random(2, 3, 4)
    np.testing.assert_allclose(module.apply(linen(layer, module), jnp.asarray(x.numpy())), layer(x).detach().numpy())
