"""RReLU: torch's in evaluation; in training slopes of its own, of torch's distribution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import RReLU


def test_evaluation_is_torchs(float64: None) -> None:
    x = np.concatenate([np.random.default_rng(0).normal(size=30), [0.0]])
    tensor = torch.from_numpy(x).requires_grad_()
    expected = torch.nn.RReLU(0.1, 0.5).eval()(tensor)
    expected.sum().backward()
    layer = RReLU(0.1, 0.5)
    layer.eval()
    assert np.abs(layer(jnp.asarray(x)) - expected.detach().numpy()).max() < 1e-16
    assert np.abs(jax.grad(lambda x: layer(x).sum())(jnp.asarray(x)) - tensor.grad.numpy()).max() < 1e-16
    other = RReLU(0.1, 0.6, deterministic=True)
    assert np.abs(other(jnp.asarray(x)) - expected.detach().numpy()).max() > 1e-2


def test_slopes_are_uniform_one_for_each_element_and_are_the_gradient(float64: None) -> None:
    layer = RReLU(0.1, 0.5, rngs=nnx.Rngs(0))
    x = -jnp.abs(jax.random.normal(jax.random.key(1), (100, 100)))
    key = jax.random.key(2)
    y, pull_back = jax.vjp(lambda x: layer(x, rngs=key), x)
    slopes = np.asarray(y / x)
    np.testing.assert_allclose(pull_back(jnp.ones_like(x))[0], slopes, rtol=1e-12)
    theirs = (torch.nn.RReLU(0.1, 0.5).train()(torch.full((100, 100), -1.0)) * -1).numpy()
    for drawn in (slopes, theirs):
        assert 0.1 <= drawn.min() < 0.101
        assert 0.499 < drawn.max() <= 0.5
        assert np.abs(np.histogram(drawn, 8, (0.1, 0.5))[0] / 1e4 - 1 / 8).max() < 0.02
    assert (layer(-x) == -x).all()
    assert (layer(x) != layer(x)).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_it_compiles_and_keeps_the_dtype(dtype: str, float64: None) -> None:
    layer = RReLU(rngs=nnx.Rngs(0))
    assert nnx.jit(lambda layer, x: layer(x))(layer, -jnp.ones((2, 3), jnp.dtype(dtype))).dtype == dtype


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="from lower to upper"):
        RReLU(0.5, 0.1)
    with pytest.raises(UsageError, match="RReLU draws random numbers"):
        RReLU()(jnp.ones(3))
