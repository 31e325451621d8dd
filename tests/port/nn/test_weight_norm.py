"""port.nn.WeightNorm by itself, and what flax.nnx's own does instead (W22)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.nn import WeightNorm


def linear() -> nnx.Linear:
    return nnx.Linear(4, 3, rngs=nnx.Rngs(0))


@pytest.mark.parametrize("axis", [-1, 0, None])
def test_wrapping_changes_nothing(axis: int | None) -> None:
    wrapped, plain = WeightNorm(linear(), axis=axis), linear()
    np.testing.assert_allclose(wrapped.computed(), plain.kernel[...], rtol=1e-6)
    assert wrapped.scale.shape == {-1: (1, 3), 0: (4, 1), None: ()}[axis]


def test_the_length_of_the_direction_does_not_matter() -> None:
    wrapped = WeightNorm(linear())
    before = wrapped.computed()
    wrapped.original[...] = 7 * wrapped.original[...]
    np.testing.assert_allclose(wrapped.computed(), before, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str) -> None:
    wrapped = WeightNorm(nnx.Linear(4, 3, param_dtype=dtype, rngs=nnx.Rngs(0)))
    assert wrapped.scale.dtype == wrapped.computed().dtype == dtype
    assert wrapped(jnp.ones((2, 4), dtype)).dtype == dtype


@pytest.mark.sweep
def test_W22_flaxs_own_loses_the_direction() -> None:
    flaxs, ours = nnx.WeightNorm(linear(), rngs=nnx.Rngs(0)), WeightNorm(linear())
    x = jnp.ones((2, 4))
    start = np.asarray(ours.original[...])

    def loss(layer: Any) -> jax.Array:
        return jnp.square(layer(x)).sum()

    of_ours, _ = (nnx.grad(loss)(layer) for layer in (ours, flaxs))
    assert {path[-1] for path, _ in nnx.to_flat_state(of_ours)} == {"scale", "kernel", "bias"}
    np.testing.assert_array_equal(ours.original[...], start)
    # A row of norm one stands where the direction stood.
    np.testing.assert_allclose(jnp.square(flaxs.layer_instance.kernel[...]).sum(0), np.ones(3), rtol=1e-5)
    assert np.abs(np.square(start).sum(0) - 1).max() > 0.1
