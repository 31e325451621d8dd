"""A model whose builder replaced one activation by another is written with the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.construction.replaced_functions import put_in_place, replaced_functions
from port.translation.verify.proving import prove
from tests.port.translation.agreeing import translated


class Activated(nn.Module):
    """One layer, and an activation that it is given."""

    def __init__(self, width_in: int, width: int, activation: Any = nn.ReLU6) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width)
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(9 * self.linear(x))


class Stack(nn.Module):
    """Layers whose activation is named in three ways."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, width), nn.ReLU6())
        self.layers = nn.ModuleList([Activated(width, width, activation=nn.ReLU6) for _ in range(depth)])
        self.last = Activated(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(9 * x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def unbounded(width: int, depth: int, *, most: int = 100) -> Stack:
    """A stack in which no activation, or only the first ``most`` of them, has an upper bound."""
    made = Stack(width, depth)
    for owner in [each for each in made.modules() if "ReLU6" in map(_kind, each._modules.values())][:most]:
        for name, child in owner._modules.items():
            if _kind(child) == "ReLU6":
                owner._modules[name] = nn.ReLU()
    return made


def _kind(module: nn.Module | None) -> str:
    return type(module).__name__


@pytest.fixture(scope="module")
def made() -> Any:
    torch.manual_seed(0)
    return translated(
        unbounded(5, 3), torch.randn(2, 4), construct=lambda: unbounded(5, 3), static=True, sizes_limit=0.0
    )


@pytest.mark.sweep
def test_its_constructors_name_the_activation_that_is_there(made: Any) -> None:
    assert made.elsewhere.keeps_constructors
    assert "relu6" not in made.source
    assert "Activated(width, width, activation=nnx.relu, **options) for _ in range(depth)" in made.source
    assert "activation: Any = nnx.relu," in made.source


@pytest.mark.sweep
def test_the_one_that_made_room_is_another_model(made: Any) -> None:
    torch.manual_seed(0)
    module, x = unbounded(5, 3), torch.randn(2, 4)
    planted = made.source.replace("activation=nnx.relu,", "activation=nnx.relu6,").replace("nnx.relu(", "nnx.relu6(")
    assert planted != made.source
    assert not prove(module, replace(made, source=planted), (x,), {}).agrees


def test_elsewhere_it_has_been_replaced_as_well(made: Any) -> None:
    assert made.proof_at(lambda: unbounded(6, 2)).agrees


def test_where_some_have_stayed_constructors_say_what_each_makes() -> None:
    torch.manual_seed(0)
    some = translated(
        unbounded(5, 3, most=2),
        torch.randn(2, 4),
        construct=lambda: unbounded(5, 3, most=2),
        static=True,
        sizes_limit=0.0,
    )
    assert "relu6" in some.source and "nnx.relu(" in some.source


def test_what_is_replaced_is_told_from_both_models() -> None:
    plain, changed = Stack(5, 2), unbounded(5, 2)
    found = replaced_functions(plain, changed)
    assert {cls.__name__: _kind(layer) for cls, layer in found.items()} == {"ReLU6": "ReLU"}
    put_in_place(plain, found)
    assert repr(plain) == repr(changed)
    assert replaced_functions(plain, changed) == {}
    assert replaced_functions(Stack(5, 2), unbounded(5, 2, most=1)) == {}
    other = Stack(5, 2)
    other.layers[0].linear = nn.Identity()  # type: ignore[assignment]
    assert replaced_functions(Stack(5, 2), other) == {}
    assert replaced_functions(Stack(5, 2), Stack(5, 1)) == {}
