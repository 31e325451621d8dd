"""port.nn.Bilinear by itself. What it computes is compared in the tests of its pair."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.nn import Bilinear


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_is_kept(dtype: str) -> None:
    layer = Bilinear(3, 4, 5, param_dtype=dtype, rngs=nnx.Rngs(0))
    x1, x2 = jnp.ones((2, 3), dtype), jnp.ones((2, 4), dtype)
    assert jax.eval_shape(layer, x1, x2).dtype == dtype
    assert layer.kernel.dtype == layer.bias.dtype == dtype


def test_it_is_linear_in_either_input() -> None:
    layer = Bilinear(3, 4, 5, bias=False, rngs=nnx.Rngs(0))
    keys = jax.random.split(jax.random.key(0), 4)
    a, b = (jax.random.normal(key, (2, 3)) for key in keys[:2])
    c, d = (jax.random.normal(key, (2, 4)) for key in keys[2:])
    np.testing.assert_allclose(layer(2 * a + b, c), 2 * layer(a, c) + layer(b, c), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer(a, 2 * c + d), 2 * layer(a, c) + layer(a, d), rtol=1e-4, atol=1e-5)
    assert np.abs(layer(2 * a, 2 * c) - 2 * layer(a, c)).max() > 1e-2
