"""The value stays, the gradient is scaled: in both directions of differentiation, and compiled."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from port.nn.gradient import scale_gradient


def test_the_value_is_the_same_and_the_gradient_is_scaled() -> None:
    x, factor = jnp.array([[1.0, -2.0], [jnp.inf, 3.0]]), jnp.array([[0.5], [2.0]])
    np.testing.assert_array_equal(scale_gradient(x, factor), x)
    expected = np.broadcast_to(factor, (2, 2))
    np.testing.assert_array_equal(jax.grad(lambda x: scale_gradient(x, factor).sum())(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: scale_gradient(x, factor).sum()))(x), expected)
    _, tangent = jax.jvp(lambda x: scale_gradient(x, factor), (x,), (jnp.ones_like(x),))
    np.testing.assert_array_equal(tangent, expected)


def test_the_dtype_of_the_gradient_is_the_values() -> None:
    x = jnp.ones(3, jnp.bfloat16)
    assert jax.grad(lambda x: scale_gradient(x, jnp.full(3, 0.5)).sum())(x).dtype == jnp.bfloat16
