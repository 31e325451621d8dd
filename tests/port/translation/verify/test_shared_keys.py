"""Layers of a stack that share a random key are found; separate keys, and lists of layers, pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from port.nn import stacked
from port.translation.verify.shared_keys import shared_keys


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.layers = stacked([nnx.Sequential(nnx.Dropout(0.5, rngs=rngs)) for _ in range(3)])


def test_a_key_for_each_layer_is_right() -> None:
    assert shared_keys(Net(nnx.Rngs(0)), ["layers"]) == ""


@pytest.mark.parametrize("places", [(0, 0, 0), (0, 1, 1)])
def test_one_key_for_several_is_found(places: tuple[int, ...]) -> None:
    net: Any = Net(nnx.Rngs(0))
    key = net.layers.layers[0].rngs.key
    key.set_value(key[...][jnp.asarray(places)])
    assert f"layers.layers.0.rngs.key has {len(set(places))} for 3 layers" in shared_keys(net, ["layers"])
    assert shared_keys(net, ["others"]) == ""


def test_a_stream_without_an_axis_is_found() -> None:
    net: Any = Net(nnx.Rngs(0))
    net.layers.layers[0].rngs.key.set_value(jax.random.key(1))
    assert "share a random key" in shared_keys(net, ["layers"])
