"""Alpha dropout: torch's arithmetic under torch's own mask, and what the masks of ours look like."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import AlphaDropout, FeatureAlphaDropout
from port.nn.dropout import alpha_dropout

TOLERANCE = 1e-14


def torchs(layer: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, the mask that shows in it, and the gradient of x."""
    tensor = torch.from_numpy(x).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = layer.train()(tensor)
    y.backward(torch.from_numpy(np.random.default_rng(1).normal(size=x.shape)))
    keep = (tensor.grad != 0).numpy()
    return y.detach().numpy(), keep, tensor.grad.numpy()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("layer", [torch.nn.AlphaDropout, torch.nn.FeatureAlphaDropout])
def test_the_arithmetic_is_torchs(layer: Any, rate: float, float64: None) -> None:
    x = np.random.default_rng(0).normal(0.5, 2, (6, 7, 3))
    expected, keep, gradient = torchs(layer(rate), x)
    assert keep.mean() == pytest.approx(1 - rate, abs=0.25)
    got, pull_back = jax.vjp(lambda x: alpha_dropout(x, keep, rate), jnp.asarray(x))
    assert np.abs(got - expected).max() <= TOLERANCE
    assert np.abs(pull_back(np.random.default_rng(1).normal(size=x.shape))[0] - gradient).max() <= TOLERANCE
    if rate < 1:
        assert np.abs(alpha_dropout(x, keep, rate + 0.05) - expected).max() > 1e-2


def test_mean_and_variance_are_left_as_they_are() -> None:
    x = jax.random.normal(jax.random.key(0), (400, 500))
    y = AlphaDropout(0.3, rngs=nnx.Rngs(1))(x)
    assert abs(y.mean()) < 0.02
    assert abs(y.var() - 1) < 0.02
    plain = nnx.Dropout(0.3, rngs=nnx.Rngs(1))(x)
    assert abs(plain.var() - 1) > 0.2


@pytest.mark.sweep
def test_W26_whole_channels_drop_together() -> None:
    x = jax.random.normal(jax.random.key(0), (40, 5, 6, 7))
    y = FeatureAlphaDropout(0.4, rngs=nnx.Rngs(1))(x)
    same = (y == y[:, :1, :1]).all((1, 2))  # (N, C)
    assert 0.3 < same.mean() < 0.5
    elements = AlphaDropout(0.4, rngs=nnx.Rngs(1))(x)
    assert not (elements == elements[:, :1, :1]).all((1, 2)).any()


def test_evaluation_and_a_rate_of_zero_leave_the_input_alone() -> None:
    x = jnp.ones((3, 4))
    layer = AlphaDropout(0.5)
    assert layer(x, deterministic=True) is x
    layer.eval()
    assert layer(x) is x
    assert AlphaDropout(0.0)(x) is x
    layer.train()
    with pytest.raises(UsageError, match="AlphaDropout draws random numbers"):
        layer(x)


def test_the_key_decides_and_every_call_has_another() -> None:
    x = jnp.ones((30, 40))
    layer = AlphaDropout(0.5, rngs=nnx.Rngs(0))
    key = jax.random.key(5)
    assert (layer(x, rngs=key) == layer(x, rngs=key)).all()
    assert (layer(x) != layer(x)).any()
    keep = jax.random.bernoulli(key, 0.5, x.shape)
    assert (layer(x, rngs=key) == alpha_dropout(x, keep, 0.5)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_it_compiles_and_keeps_the_dtype(dtype: str, float64: None) -> None:
    layer = FeatureAlphaDropout(0.5, rngs=nnx.Rngs(0))
    y = nnx.jit(lambda layer, x: layer(x))(layer, jnp.ones((2, 3, 4), jnp.dtype(dtype)))
    assert y.dtype == dtype


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 1, got"):
        AlphaDropout(1.5)
    with pytest.raises(UsageError, match=r"\(N, \*spatial, C\)"):
        FeatureAlphaDropout(0.5, rngs=nnx.Rngs(0))(jnp.ones(3))
