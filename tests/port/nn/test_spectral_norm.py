"""port.nn.SpectralNorm by itself, and what flax.nnx's own does instead (W22)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import SpectralNorm


def wrapped(**options: object) -> SpectralNorm:
    return SpectralNorm(nnx.Linear(5, 3, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1), **options)  # type: ignore[arg-type]


def test_it_starts_near_and_iterates_to_a_spectral_norm_of_one() -> None:
    layer, x = wrapped(), jnp.ones((2, 5))
    assert np.linalg.norm(layer.computed(), 2) == pytest.approx(1, abs=0.05)  # 15 iterations are done
    for _ in range(60):
        layer(x)
    assert np.linalg.norm(layer.computed(), 2) == pytest.approx(1, abs=1e-4)
    left, sigma, _ = np.linalg.svd(np.asarray(layer.original[...]).T)
    assert abs(left[:, 0] @ layer.u[...]) == pytest.approx(1, abs=1e-3)
    assert sigma[0] > 1.05  # the original is what it was


def test_the_older_way_starts_anywhere() -> None:
    assert abs(np.linalg.norm(wrapped(v_first=True, use_running_average=True).computed(), 2) - 1) > 0.05


def test_evaluation_does_not_iterate() -> None:
    layer, x = wrapped(v_first=True), jnp.ones((2, 5))
    layer.eval()
    before = layer.u[...]
    y = layer(x)
    np.testing.assert_array_equal(layer.u[...], before)
    np.testing.assert_array_equal(nnx.view(layer, use_running_average=True)(x), y)
    layer.train()
    layer(x)
    assert np.abs(layer.u[...] - before).max() > 1e-3


def test_under_nnx_jit_it_iterates_in_place() -> None:
    eager, jitted, x = wrapped(v_first=True), wrapped(v_first=True), jnp.ones((2, 5))
    np.testing.assert_allclose(nnx.jit(lambda layer, x: layer(x))(jitted, x), eager(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jitted.v[...], eager.v[...], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str) -> None:
    layer = SpectralNorm(nnx.Linear(5, 3, param_dtype=dtype, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    assert layer.u.dtype == layer.v.dtype == layer(jnp.ones((2, 5), dtype)).dtype == dtype


def test_a_vector_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'bias' has shape \(3,\)"):
        SpectralNorm(nnx.Linear(5, 3, rngs=nnx.Rngs(0)), "bias", rngs=nnx.Rngs(1))


def test_W22_flaxs_own_overwrites_the_kernel_and_iterates_in_evaluation_too() -> None:
    x, results = jnp.ones((2, 5)), []
    for steps in (1, 5):
        flaxs = nnx.SpectralNorm(nnx.Linear(5, 3, rngs=nnx.Rngs(0)), n_steps=steps, rngs=nnx.Rngs(1))
        start = np.asarray(flaxs.layer_instance.kernel[...])
        flaxs.eval()
        results.append(flaxs(x))
        assert np.abs(flaxs.layer_instance.kernel[...] - start).max() > 1e-2
    assert np.abs(results[0] - results[1]).max() > 1e-3
    ours = [wrapped(n_power_iterations=steps, use_running_average=True) for steps in (1, 5)]
    start = np.asarray(ours[0].original[...])
    np.testing.assert_array_equal(ours[0](x), ours[1](x))
    np.testing.assert_array_equal(ours[0].original[...], start)
