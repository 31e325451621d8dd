"""torch's own module database, whole: every entry has a twin, and its weights go there and back bit for bit.

What the twins compute, on every sample of the same database, is tested family by family: `layers/`, `test_losses.py`,
and `tests/port/nn/` for the recurrent layers and the transformers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

import port
from port.pairs import build_twin, pairs_of_torch, resolve

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about what this machine lacks
    from torch.testing._internal.common_modules import module_db

ENTRIES = {info.name: info for info in module_db}
CANNOT: dict[str, str] = {}
"""Entries that cannot be moved, with the reason. The guide on checkpoints names this file."""

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own arguments


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def layers(name: str) -> list[torch.nn.Module]:
    """The entry's modules, one for each way of building it, with random weights, in float64."""
    info = ENTRIES[name]
    built: dict[str, torch.nn.Module] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for sample in info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=True
        ):
            given = sample.constructor_input
            text = f"{given.args} {given.kwargs}"
            if text in built:
                continue
            module = info.module_cls(*given.args, **given.kwargs)
            if name.startswith("nn.Lazy"):
                module(*(x.to(torch.float32) for x in sample.forward_input.args))
            built[text] = randomise(module.double())
    return list(built.values())


def randomise(module: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 2)
            else:
                tensor.fill_(7)
    return module


def bits(state: dict[str, torch.Tensor]) -> dict[str, tuple[Any, ...]]:
    return {key: (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) for key, tensor in state.items()}


def test_all_114_entries_are_there_and_none_is_left_out() -> None:
    assert len(ENTRIES) >= 114
    assert set(CANNOT) <= set(ENTRIES)
    assert not CANNOT


@pytest.mark.thin(9)
@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(CANNOT)))
def test_there_and_back_bit_for_bit(name: str) -> None:
    check(layers(name)[:1])


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(CANNOT)))
def test_every_way_of_building_it(name: str) -> None:
    check(layers(name)[1:])


def check(built: list[torch.nn.Module]) -> None:
    for layer in built:
        assert pairs_of_torch(layer), f"{layer} has no pair"
        state = layer.state_dict()
        back = port.to_torch(port.to_flax(layer), like=layer)
        assert bits(back) == bits(state)
        if not isinstance(resolve(pairs_of_torch(layer)[0].flax), type):
            continue  # a function: it has no weights of its own
        twin = build_twin(layer, param_dtype=jnp.float64)
        port.load(twin, layer)
        again = port.to_torch(twin, like=layer)
        assert bits(again) == bits(state)
        layer.load_state_dict(again, strict=True)
        # The same from names alone: a checkpoint, and the Flax model.
        port.load(twin, state)
        assert bits(port.to_torch(twin, like=layer)) == bits(state)


@pytest.mark.sweep
def test_one_bit_elsewhere_is_seen() -> None:
    (layer, *_) = layers("nn.Bilinear")
    variables = port.to_flax(layer)
    name = next(iter(variables["params"]))
    variables["params"][name] = variables["params"][name].copy()
    variables["params"][name].flat[0] += 1e-15
    assert bits(port.to_torch(variables, like=layer)) != bits(layer.state_dict())
