"""Dropouts whose rates differ, in a stack: each layer drops its own share, and scales by it."""

from __future__ import annotations

from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import StochasticDepth, partly_stacked, stacked
from port.nn.layer_dropout import LayerDropout

RATES = (0.1, 0.5, 0.8)


class Layer(nnx.Module):
    def __init__(self, rate: float, rngs: nnx.Rngs, cls: Any = nnx.Dropout) -> None:
        self.drop = cls(rate, rngs=rngs)
        self.inside = nnx.List([nnx.Dropout(rate / 2, broadcast_dims=(-1,), rngs=rngs)])


def each_of(stack: Any, call: Any) -> np.ndarray:
    return np.asarray(nnx.jit(nnx.scan(lambda layer: call(layer), in_axes=0, out_axes=0))(stack))


def test_each_layer_drops_its_own_share() -> None:
    rngs = nnx.Rngs(0)
    stack = stacked([Layer(rate, rngs) for rate in RATES])
    assert type(stack.drop) is type(stack.inside[0]) is LayerDropout
    ones = jnp.ones((200, 50))
    dropped = each_of(stack, lambda layer: layer.drop(ones))
    for rate, layer in zip(RATES, dropped, strict=True):
        np.testing.assert_allclose((layer == 0).mean(), rate, atol=0.02)
        np.testing.assert_allclose(layer[layer != 0], 1 / (1 - rate), rtol=1e-6)
    rows = each_of(stack, lambda layer: layer.inside[0](ones))
    assert all(len(set(row.tolist())) == 1 for row in rows[1])
    stack.eval()
    np.testing.assert_array_equal(each_of(stack, lambda layer: layer.drop(ones)), jnp.ones((3, 200, 50)))


def test_stochastic_depth_too() -> None:
    rngs = nnx.Rngs(0)
    stack = stacked([Layer(rate, rngs, StochasticDepth) for rate in RATES])
    dropped = each_of(stack, lambda layer: layer.drop(jnp.ones((4000, 2))))
    for rate, layer in zip(RATES, dropped, strict=True):
        np.testing.assert_allclose((layer[:, 0] == 0).mean(), rate, atol=0.03)
        np.testing.assert_array_equal(layer[:, 0], layer[:, 1])


def test_what_drops_nothing_is_no_layer_of_the_stack() -> None:
    rngs = nnx.Rngs(0)
    layers = [Layer(rate, rngs) for rate in (0.0, *RATES)]
    with pytest.raises(UsageError, match=r"0\.0, 0\.1, 0\.5, 0\.8, and a dropout of rate 0 or 1 draws nothing"):
        stacked(layers)
    first, run = cast("list[Any]", partly_stacked([Layer(rate, rngs) for rate in (0.0, *RATES)], before=1))
    assert first.drop.rate == 0.0 and run.drop.rate.shape == (3,)
    whole: Any = partly_stacked([Layer(0.5, rngs) for _ in range(5)], before=1, after=2)
    assert [each.drop.rngs.key.shape for each in whole] == [(), (2,), (), ()]
    with pytest.raises(UsageError, match="needs at least one layer"):
        partly_stacked([Layer(0.5, rngs)], before=1)
