"""Options of torch's layers that the Flax layer lacks are told, and no others."""

from __future__ import annotations

from typing import Any

import flax.linen
import jax.numpy as jnp
import pytest
import torch
from flax import nnx

import port.nn
from port.mapping import between, guide_of_flax, guide_of_torch
from port.mapping.lacking import lacking


def told(ours: Any, **options: Any) -> list[str]:
    torchs = guide_of_torch(torch.nn.Sequential(torch.nn.Embedding(7, 3, **options)))
    flaxs = guide_of_flax(ours, jnp.zeros(2, int))
    rename = {"^0": "layers_0"} if isinstance(ours, Linen) else None
    return lacking(between(torchs, flaxs, rename=rename).entries, torchs, flaxs)


class Linen(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x: Any) -> Any:
        return flax.linen.Embed(7, 3, name="layers_0")(x)


def own(**options: Any) -> nnx.Module:
    return nnx.Sequential(port.nn.Embedding(7, 3, rngs=nnx.Rngs(0), **options))


@pytest.mark.parametrize(
    ("option", "value"), [("padding_idx", 0), ("padding_idx", 6), ("max_norm", 1.5), ("scale_grad_by_freq", True)]
)
def test_an_option_that_flax_lacks(option: str, value: Any) -> None:
    theirs = {option: value}
    for ours in (nnx.Sequential(nnx.Embed(7, 3, rngs=nnx.Rngs(0))), Linen()):
        (line,) = told(ours, **theirs)
        assert line.startswith(f"0: {option}={value} in torch: ")
        assert f"port.nn.Embedding({option}={value})" in line
    assert told(own(**theirs), **theirs) == []


def test_a_plain_one_lacks_nothing() -> None:
    assert told(nnx.Sequential(nnx.Embed(7, 3, rngs=nnx.Rngs(0)))) == []
    assert told(Linen()) == []
    names = guide_of_torch({"0.weight": torch.ones(7, 3)})
    flaxs = guide_of_flax(nnx.Sequential(nnx.Embed(7, 3, rngs=nnx.Rngs(0))))
    assert lacking(between(names, flaxs).entries, names, flaxs) == [], "names tell no options"
