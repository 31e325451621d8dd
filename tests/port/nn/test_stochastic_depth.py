"""Stochastic depth: torchvision's arithmetic under torchvision's own mask, and what the masks of ours look like."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torchvision.ops import StochasticDepth as Torchs

from port.errors import UsageError
from port.nn import StochasticDepth

TOLERANCE = 1e-15


@pytest.mark.parametrize("rate", [0.2, 0.7, 1.0])
@pytest.mark.parametrize("mode", ["row", "batch"])
def test_the_arithmetic_is_torchvisions(mode: str, rate: float, float64: None, monkeypatch) -> None:
    x = np.random.default_rng(0).normal(0.5, 2, (12, 3, 4))
    seen = set()
    for seed in range(6):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected = Torchs(rate, mode).train()(torch.from_numpy(x)).numpy()
        keep = expected.any((1, 2), keepdims=True) if mode == "row" else expected.any(keepdims=True)

        def drawn(key, p, shape, keep=keep):
            assert p == 1 - rate
            assert shape == keep.shape
            return jnp.asarray(keep)

        monkeypatch.setattr(jax.random, "bernoulli", drawn)
        got = StochasticDepth(rate, mode, rngs=nnx.Rngs(0))(jnp.asarray(x))
        assert np.abs(got - expected).max() <= TOLERANCE * np.abs(expected).max(initial=1)
        seen.add(bool(keep.any()))
    assert seen == {False} if rate == 1 else True in seen


def test_of_a_row_all_drops_or_nothing_and_of_a_batch_too() -> None:
    x = jax.random.normal(jax.random.key(0), (400, 3, 5))
    rows = StochasticDepth(0.4, "row", rngs=nnx.Rngs(1))(x)
    dropped = (rows == 0).all((1, 2))
    assert 0.3 < dropped.mean() < 0.5
    assert jnp.allclose(rows[~dropped], x[~dropped] / 0.6)
    layer = StochasticDepth(0.4, "batch", rngs=nnx.Rngs(1))
    batches = [layer(x) for _ in range(40)]
    whole = [bool((y == 0).all()) for y in batches]
    assert 5 < sum(whole) < 30
    assert all((y != 0).all() for y, gone in zip(batches, whole, strict=True) if not gone)


def test_evaluation_and_a_rate_of_zero_leave_the_input_alone() -> None:
    x = jnp.ones((3, 4))
    layer = StochasticDepth(0.5)
    assert layer(x, deterministic=True) is x
    layer.eval()
    assert layer(x) is x
    assert StochasticDepth(0.0)(x) is x
    layer.train()
    with pytest.raises(UsageError, match="StochasticDepth draws random numbers"):
        layer(x)


def test_the_key_decides_and_every_call_has_another() -> None:
    x = jnp.ones((50, 2))
    layer = StochasticDepth(0.5, rngs=nnx.Rngs(0))
    key = jax.random.key(5)
    assert (layer(x, rngs=key) == layer(x, rngs=key)).all()
    assert (layer(x) != layer(x)).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_it_compiles_and_keeps_the_dtype(dtype: str, float64: None) -> None:
    layer = StochasticDepth(0.5, rngs=nnx.Rngs(0))
    y = nnx.jit(lambda layer, x: layer(x))(layer, jnp.ones((2, 3, 4), jnp.dtype(dtype)))
    assert y.dtype == dtype


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 1, got"):
        StochasticDepth(1.5)
    with pytest.raises(UsageError, match="row, batch, got 'column'"):
        StochasticDepth(0.5, "column")
