"""Fractional max pooling: torch's under its samples; windows of its own without them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import UsageError
from port.nn import FractionalMaxPool


def test_with_torchs_samples_it_is_torchs(float64: None) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8))
    samples = np.random.default_rng(1).uniform(size=(2, 3, 2))
    theirs = torch.nn.FractionalMaxPool2d((2, 3), output_ratio=(0.5, 0.6), _random_samples=torch.from_numpy(samples))
    expected = np.moveaxis(theirs(torch.from_numpy(x)).numpy(), 1, -1)
    layer = FractionalMaxPool((2, 3), output_ratio=(0.5, 0.6), random_samples=samples)
    last = jnp.asarray(np.moveaxis(x, 1, -1))
    np.testing.assert_array_equal(layer(last), expected)
    other = FractionalMaxPool((2, 3), output_ratio=(0.5, 0.6), random_samples=samples[::-1].copy())
    assert (other(last) != expected).any()
    assert [str(path[-1]) for path, _ in nnx.to_flat_state(nnx.state(layer, nnx.BatchStat))] == ["random_samples"]


@pytest.mark.sweep
def test_without_them_windows_are_drawn_at_each_call_in_evaluation_too() -> None:
    x = jax.random.normal(jax.random.key(0), (2, 20, 18, 3))
    layer = FractionalMaxPool((2, 2), output_size=(9, 11), rngs=nnx.Rngs(0))
    layer.eval()
    first, second = layer(x), layer(x)
    assert first.shape == (2, 9, 11, 3)
    assert (first != second).any()
    key = jax.random.key(3)
    assert (layer(x, rngs=key) == layer(x, rngs=key)).all()
    assert layer(x[0], rngs=key).shape == (9, 11, 3)


def test_it_compiles_returns_indices_and_keeps_the_dtype(float64: None) -> None:
    layer = FractionalMaxPool((2, 2, 2), output_size=3, return_indices=True, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (2, 6, 5, 7, 4), jnp.bfloat16)
    values, indices = nnx.jit(lambda layer, x: layer(x))(layer, x)
    assert values.dtype == jnp.bfloat16
    taken = jnp.take_along_axis(x.reshape(2, -1, 4), indices.reshape(2, -1, 4), 1)
    np.testing.assert_array_equal(taken.reshape(values.shape), values)


def test_without_a_stream_it_is_refused() -> None:
    with pytest.raises(UsageError, match="FractionalMaxPool draws random numbers"):
        FractionalMaxPool((2, 2), 3)(jnp.ones((1, 8, 8, 2)))
