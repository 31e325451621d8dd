"""What a torch module tells: through wrappers, with what is lazy, shared, or no tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import NoPair
from port.mapping import TORCH_ONLY, between, guide_of_torch
from port.mapping.torch_guide import unwrapped


class Keeping(torch.nn.Module):
    """A module with an extra state."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.fc, self.state = torch.nn.Linear(2, 3), state

    def get_extra_state(self) -> Any:
        return self.state

    def set_extra_state(self, state: Any) -> None:
        self.state = state


def test_wrappers_are_looked_through():
    model = torch.nn.Linear(2, 3)
    assert unwrapped(torch.nn.DataParallel(torch.nn.DataParallel(model))) is model
    assert list(guide_of_torch(torch.nn.DataParallel(model)).leaves) == ["weight", "bias"]


@pytest.mark.sweep  # importing torch's compiler takes seconds
def test_a_compiled_module_is_looked_through():
    model = torch.nn.Linear(2, 3)
    assert unwrapped(torch.compile(torch.nn.DataParallel(model))) is model
    assert between(torch.compile(model)) == between(model)


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Sequential(torch.nn.LazyLinear(3)),
        torch.nn.Sequential(torch.nn.LazyConv2d(3, 3)),
        torch.nn.Sequential(torch.nn.LazyBatchNorm1d()),
    ],
)
def test_a_lazy_layer_that_was_not_run_is_refused_by_name(model):
    with pytest.raises(NoPair, match=r"0\.\w+ has no shape yet.*run it once"):
        between(model)
    with pytest.raises(NoPair, match=r"has no shape yet"):
        between(model.state_dict(), nnx.Dict())


def test_a_lazy_layer_that_was_run_is_its_plain_self():
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    model(torch.zeros(1, 2))
    assert between(model) == between(torch.nn.Sequential(torch.nn.Linear(2, 3)))


@pytest.mark.parametrize("state", [{"any": "thing"}, torch.arange(3), b"bytes"])
def test_an_extra_state_is_nobodys_weight(state):
    model = Keeping(state)
    ours = nnx.Dict(fc=nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    for mapping in (between(model), between(model, ours), between(model.state_dict(), ours)):
        kept = [entry for entry in mapping.entries if entry.collection == TORCH_ONLY]
        assert [entry.sources for entry in kept] == ([("_extra_state",)] if torch.is_tensor(state) else [])
        tensors = {name: value for name, value in model.state_dict().items() if torch.is_tensor(value)}
        weights = mapping({name: value.numpy() for name, value in tensors.items()})
        assert {"fc.kernel", "fc.bias"} <= set(weights)
        assert set(mapping.inverse()(weights)) == set(tensors)


def test_kinds_and_dtypes_are_told():
    model = torch.nn.BatchNorm1d(3).to(torch.bfloat16)
    leaves = guide_of_torch(model).leaves
    assert {name: (leaf.dtype, leaf.collection) for name, leaf in leaves.items()} == {
        "weight": ("bfloat16", "params"),
        "bias": ("bfloat16", "params"),
        "running_mean": ("bfloat16", "buffers"),
        "running_var": ("bfloat16", "buffers"),
        "num_batches_tracked": ("int64", "buffers"),
    }


def test_tensors_that_share_memory_are_one_and_views_of_it_are_not():
    weight = torch.randn(4, 3)
    state = {
        "a": weight,
        "b": weight.detach(),
        "c": weight[:2],
        "d": weight.clone(),
        "e": torch.empty(0),
        "f": torch.empty(0),
    }
    assert guide_of_torch(state).tied == {"b": "a"}
    assert guide_of_torch({"a": weight.to("meta"), "b": weight.to("meta")}).tied == {}


def test_parameters_in_lists_and_dicts_are_bare():
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.list = torch.nn.ParameterList([torch.randn(2, 3)])
            self.dict = torch.nn.ParameterDict({"a": torch.randn(3)})

    assert str(between(Own())) == "list.0 → list.0\ndict.a → dict.a"
    ours = nnx.Dict(list=nnx.List([nnx.Param(np.zeros((2, 3)))]), dict=nnx.Dict(a=nnx.Param(np.zeros(3))))
    assert str(between(Own(), ours)) == "list.0 → list.0\ndict.a → dict.a"


def test_buffers_that_no_state_dict_holds_are_told_apart():
    inner, model = torch.nn.Linear(2, 2), torch.nn.Module()
    inner.register_buffer("mask", torch.ones(2), persistent=False)
    model.inner = inner
    model.register_buffer("table", torch.ones(3))
    guide = guide_of_torch(model)
    assert set(guide.leaves) == {"table", "inner.weight", "inner.bias"}
    assert guide.hidden == {"inner.mask"}
