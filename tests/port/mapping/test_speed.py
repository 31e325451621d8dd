"""A model of a thousand tensors is mapped, and refused, while a person waits."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest
import torch
from flax import nnx

from port.errors import WeightsMismatch
from port.mapping import Mapping, between

pytestmark = pytest.mark.benchmark

BLOCKS, SECONDS = 128, 4  # eight tensors a block; an idle machine takes a quarter


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.a, self.b = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)
        self.norm, self.conv = nnx.LayerNorm(8, rngs=rngs), nnx.Conv(3, 4, (3, 3), rngs=rngs)


def torch_block() -> torch.nn.Module:
    layers = {"a": torch.nn.Linear(8, 16), "b": torch.nn.Linear(16, 8), "norm": torch.nn.LayerNorm(8)}
    return torch.nn.ModuleDict(layers | {"conv": torch.nn.Conv2d(3, 4, 3)})


@pytest.fixture(scope="module")
def theirs() -> torch.nn.Module:
    with torch.device("meta"):
        return torch.nn.ModuleDict({"blocks": torch.nn.ModuleList(torch_block() for _ in range(BLOCKS))})


@pytest.fixture(scope="module")
def ours() -> nnx.Module:
    return nnx.eval_shape(lambda: nnx.Dict(blocks=nnx.List([Block(nnx.Rngs(0)) for _ in range(BLOCKS)])))


def timed(run: Callable[[], Mapping]) -> Mapping:
    began = process_time()
    mapping = run()
    assert process_time() - began < SECONDS
    return mapping


def test_a_large_mapping_is_found_from_any_side_and_composed(theirs, ours):
    mapping = timed(lambda: between(theirs, ours))
    assert len(mapping.entries) == 8 * BLOCKS
    assert timed(lambda: between(theirs)).inverse().entries
    assert timed(lambda: between(None, ours)).entries
    assert timed(lambda: between(theirs.state_dict(), ours)) == mapping
    assert all(entry.sources == entry.targets for entry in timed(lambda: mapping.then(mapping.inverse())).entries)


@pytest.mark.parametrize("prefix", ["module.", "x"])
def test_a_thousand_wrong_names_are_refused_as_fast(theirs, ours, prefix):
    state = {prefix + name: tensor for name, tensor in theirs.state_dict().items()}
    began = process_time()
    with pytest.raises(WeightsMismatch) as caught:
        between(state, ours)
    assert process_time() - began < SECONDS
    assert len(str(caught.value).splitlines()) == 1 + 2 * 8 * BLOCKS
    assert f"unexpected: {prefix}blocks.9.a.bias (nearest: blocks.9.a.bias)" in str(caught.value)
