"""Reductions against numpy, and in half precision."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from port.errors import UnknownChoice
from port.nn.functional.reduction import reduce_losses, reduce_weighted

LOSSES = np.random.default_rng(0).uniform(0.5, 2, (5, 3)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, (5, 3)).astype(np.float32)


def test_reduce_losses() -> None:
    losses = jnp.asarray(LOSSES)
    np.testing.assert_array_equal(reduce_losses(losses, "none"), LOSSES)
    np.testing.assert_allclose(reduce_losses(losses, "mean"), LOSSES.mean(), rtol=1e-6)
    np.testing.assert_allclose(reduce_losses(losses, "sum"), LOSSES.sum(), rtol=1e-6)


def test_reduce_weighted_divides_by_the_weights() -> None:
    losses, weights = jnp.asarray(LOSSES), jnp.asarray(WEIGHTS)
    np.testing.assert_array_equal(reduce_weighted(losses, weights, "none"), LOSSES)
    np.testing.assert_allclose(reduce_weighted(losses, weights, "mean"), LOSSES.sum() / WEIGHTS.sum(), rtol=1e-6)
    np.testing.assert_allclose(reduce_weighted(losses, weights, "sum"), LOSSES.sum(), rtol=1e-6)
    assert abs(LOSSES.sum() / WEIGHTS.sum() - LOSSES.mean()) > 1e-2


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_many_values_of_half_precision(dtype: jnp.dtype) -> None:
    """Their sum is no number of float16's, and their count none of bfloat16's."""
    losses = jnp.full((70_001,), 3, dtype)
    for mean in (reduce_losses(losses, "mean"), reduce_weighted(losses, jnp.ones_like(losses), "mean")):
        assert mean.dtype == dtype
        assert mean == 3


def test_mean_of_none() -> None:
    assert jnp.isnan(reduce_losses(jnp.zeros((0, 3)), "mean"))
    assert jnp.isnan(reduce_weighted(jnp.zeros(4), jnp.zeros(4), "mean"))


@pytest.mark.parametrize("reduce", [reduce_losses, lambda losses, how: reduce_weighted(losses, losses, how)])
def test_unknown(reduce: object) -> None:
    with pytest.raises(UnknownChoice, match=r"unknown reduction 'avg'; there are: .*mean"):
        reduce(jnp.ones(3), "avg")  # type: ignore[operator]
