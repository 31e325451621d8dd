"""The wrapper around a layer with a computed parameter: what it leaves alone, and what it hands on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import BatchNorm
from port.nn.parametrized import Parametrized


class Doubled(Parametrized):
    def computed(self) -> jax.Array:
        return 2 * self.original[...]


class Normalised(nnx.Module):
    """A layer that keeps statistics of its own."""

    def __init__(self) -> None:
        self.linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        self.norm = BatchNorm(2)

    def __call__(self, x: jax.Array, factor: float = 1.0) -> jax.Array:
        return self.norm(self.linear(x)) * factor


def test_the_layer_is_called_with_the_computed_parameter_and_keeps_the_original() -> None:
    layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    kernel, x = jnp.array(layer.kernel[...]), jnp.ones((1, 3))
    wrapped = Doubled(layer)
    np.testing.assert_allclose(wrapped(x), x @ (2 * kernel), rtol=1e-6)
    np.testing.assert_array_equal(layer.kernel[...], kernel)
    gradient = nnx.grad(lambda wrapped: wrapped(x).sum())(wrapped)
    np.testing.assert_array_equal(gradient.layer.kernel[...], np.full((3, 2), 2.0))


def test_the_layers_own_state_goes_on() -> None:
    wrapped = Doubled(Normalised(), "linear.kernel")
    x = jax.random.normal(jax.random.key(0), (8, 3))
    y = nnx.jit(lambda wrapped, x: wrapped(x, factor=0.5))(wrapped, x)
    assert wrapped.layer.norm.num_batches_tracked[...] == 1
    np.testing.assert_allclose(jnp.square(y).mean(), 0.25, rtol=1e-3)
    wrapped.eval()
    wrapped(x)
    assert wrapped.layer.norm.num_batches_tracked[...] == 1


@pytest.mark.parametrize("name", ["weight", "use_bias", "kernel.missing"])
def test_a_parameter_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"Linear has no parameter '{name}'"):
        Doubled(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), name)
