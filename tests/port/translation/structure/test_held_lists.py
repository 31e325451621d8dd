"""Lists that modules hold, loops over them, and lists whose first item differs from the rest."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.codegen.statements import text_of
from port.translation.ir.expr import code
from port.translation.structure.held_lists import HeldLists, held_lists, rolled_through

from ..constructed_anew import taken
from ..statements_read import statements as statements_of

LISTS = HeldLists({code("self.layers"): 3, code("self.pair"): 2}, behind=(code("self.layers"), code("self.pair")))


def test_lists_are_found_in_dicts_too() -> None:
    attributes = {
        "layers": code("nnx.List([a, b])"),
        "parts": code("nnx.Dict({'blocks': nnx.List([a, b, c]), 'norm': n})"),
        "norm": code("nnx.BatchNorm(3)"),
    }
    assert held_lists(attributes, {}).lengths == {code("self.layers"): 2, code("self.parts['blocks']"): 3}


def test_what_a_comprehension_makes_is_as_long_as_an_argument_says() -> None:
    said = {
        "layers": code("nnx.List([a() for _ in range(n)])"),
        "blocks": code("nnx.List([a(), *[b() for _ in range(n - 1)]])"),
        "others": code("nnx.List([a(), b()])"),
    }
    found = held_lists({}, said)
    assert (found.counted, found.behind) == ((code("self.layers"),), (code("self.blocks"),))
    inside = found.of_child(code("self.encoder"))
    assert (inside.counted, inside.behind) == ((code("self.encoder.layers"),), (code("self.encoder.blocks"),))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "x, b = self.layers[0](x)\nx = self.layers[1](x, b)\nx = self.layers[2](x, b)",
            "x, b = self.layers[0](x)\nfor layer in self.layers[1:]:\n    x = layer(x, b)",
        ),
        (
            "x, b = self.pair[0](x)\nx = self.pair[1](x, b)",
            "x, b = self.pair[0](x)\nfor layer in self.pair[1:]:\n    x = layer(x, b)",
        ),
        ("x = self.pair[0](x)\nx = self.pair[1](x)", "for layer in self.pair:\n    x = layer(x)"),
        ("x = self.layers[2](self.layers[1](x))", "x = self.layers[2](self.layers[1](x))"),
    ],
)
def test_the_items_behind_the_first_are_gone_through(text: str, short: str) -> None:
    assert text_of(*rolled_through(statements_of(text), LISTS, set())) == short


class Layer(nn.Module):
    """The first one has a table, and shares what it makes of it."""

    def __init__(self, dim: int, first: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        if first:
            self.table = nn.Embedding(9, dim)
        self.first = first

    def forward(self, x: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if bias is None:
            bias = self.table(torch.arange(x.shape[1]))
        return torch.tanh(self.fc(x)) + bias, bias


class Stack(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(dim, first=i == 0) for i in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        bias = None
        for layer in self.layers:
            x, bias = layer(x, bias)
        return x


class Around(nn.Module):
    """Goes through the layers of a module that it does not call."""

    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.stack, self.scale = Stack(dim, depth), 0.5

    def forward(self, x: Tensor) -> Tensor:
        bias = None
        for layer in self.stack.layers:
            x, bias = layer(x, bias)
        return self.scale * x


@pytest.mark.sweep
@pytest.mark.usefixtures("from_what_they_make")
@pytest.mark.parametrize(("make", "lists"), [(Stack, "self.layers"), (Around, "self.stack.layers")])
def test_how_many_layers_follow_the_first_is_an_argument(make: type[nn.Module], lists: str) -> None:
    made = port.translate(make(4, 2), torch.randn(2, 5, 4), construct=lambda: make(4, 2))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert taken(made) == {"dim": ..., "depth": ...}
    assert "*[Layer2(dim, **options) for _ in range(depth - 1)]" in made.source
    assert f"for layer in {lists}[1:]:" in made.source
    deeper = made.proof_at({"depth": 4, "dim": 6})
    assert deeper.agrees, str(deeper)
