"""port.nn.PReLU by itself: its gradient at zero, its dtype."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch
from flax import nnx

from port.nn import PReLU


def test_G3_the_gradient_at_zero_is_the_slope() -> None:
    x = torch.zeros(3, requires_grad=True)
    torch.nn.PReLU()(x).sum().backward()
    ours, flaxs = (jax.grad(lambda x, layer=layer: layer(x).sum())(jnp.zeros(3)) for layer in (PReLU(), nnx.PReLU()))
    assert ours.tolist() == x.grad.tolist() == [0.25] * 3
    assert flaxs.tolist() == [1] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("slopes", [1, 4])
def test_the_dtype_is_the_inputs(dtype: str, slopes: int) -> None:
    assert PReLU(slopes)(jnp.ones((2, 4), dtype)).dtype == dtype


def test_each_channel_has_its_slope() -> None:
    layer = PReLU(3, init=0.5)
    layer.negative_slope[...] = jnp.array([1.0, 2.0, 3.0])
    assert layer(jnp.array([[-1.0, -1.0, 1.0], [1.0, 0.0, -1.0]])).tolist() == [[-1, -2, 1], [1, 0, -3]]
