"""port.nn.Orthogonal by itself. What it computes is compared in the tests of its pair."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn import Orthogonal


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [pytest.param((4, 4), marks=pytest.mark.sweep), (3, 5), (5, 3)])
@pytest.mark.thin(3)
def test_the_kernel_is_orthogonal(orthogonal_map: str, shape: tuple[int, int]) -> None:
    layer = Orthogonal(nnx.Linear(*shape, rngs=nnx.Rngs(0)), orthogonal_map=orthogonal_map)
    if orthogonal_map == "householder":  # its diagonal holds signs
        layer.original[...] = jnp.fill_diagonal(layer.original[...], -1.0, inplace=False)
    kernel = np.asarray(layer.computed())
    short = kernel if shape[0] >= shape[1] else kernel.T
    np.testing.assert_allclose(short.T @ short, np.eye(min(shape)), atol=1e-5)
    assert layer(jnp.ones((2, shape[0]))).shape == (2, shape[1])


def test_options_that_cannot_be_are_refused() -> None:
    linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    with pytest.raises(UnknownChoice, match=r"'qr'.*cayley"):
        Orthogonal(linear, orthogonal_map="qr")
    with pytest.raises(UsageError, match=r"'bias' has shape \(2,\)"):
        Orthogonal(linear, "bias", orthogonal_map="cayley")
