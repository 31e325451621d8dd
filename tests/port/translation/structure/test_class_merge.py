"""Instances of one class fold into one class; what differs between them becomes constructor arguments."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

import port

from ..zoo.containers import Activations, ConvNormActivation


def classes_of(module: nn.Module, *shape: int) -> dict[str, str]:
    """The classes written for a module: name → source."""
    source = port.translate(module, torch.randn(shape), check=False).source
    return {node.name: ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


@pytest.mark.sweep
def test_activations_that_differ_are_given_to_one_class() -> None:
    classes = classes_of(Activations(), 3, 2, 11)
    assert list(classes) == ["ConvNormActivation", "Activations"]
    assert "activation_layer: Any=nnx.identity" in classes["ConvNormActivation"]
    for made in (
        "ConvNormActivation(2, 5, activation_layer=nnx.relu, **options)",
        "ConvNormActivation(5, 4, activation_layer=nnx.hard_swish, **options)",
        "ConvNormActivation(4, 3, **options)",
    ):
        assert made in classes["Activations"]


class Ends(nn.Sequential):
    """No argument of the constructor says what stands at its end."""

    def __init__(self, *last: nn.Module) -> None:
        super().__init__(nn.Linear(4, 4), nn.LayerNorm(4), *last)


def test_without_a_name_of_the_originals_the_place_names_it() -> None:
    classes = classes_of(nn.Sequential(Ends(nn.Tanh()), Ends(nn.GELU(approximate="tanh")), Ends()), 3, 4)
    assert "layer_2: Any=nnx.identity" in classes["Ends"]
    assert "Ends(layer_2=partial(nnx.gelu, approximate=True), **options)" in classes["Sequential"]


def test_a_layer_with_weights_that_only_some_have_is_no_argument() -> None:
    classes = classes_of(nn.Sequential(Ends(nn.Tanh()), Ends(nn.Linear(4, 4)), Ends()), 3, 4)
    assert list(classes) == ["Sequential"]
    assert classes["Sequential"].count("nnx.Linear(4, 4") == 4


@pytest.mark.sweep
def test_alike_but_for_numbers() -> None:
    blocks = nn.Sequential(ConvNormActivation(2, 5), ConvNormActivation(5, 3))
    made = classes_of(blocks, 3, 2, 11)["ConvNormActivation"]
    assert "activation_layer" not in made and "nnx.relu" in made


class Scaled(nn.Module):
    """Gives one array or two; each instance has a number of its own."""

    def __init__(self, scale: float, both: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale, self.both = scale, both

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        x = self.linear(x)
        return (x * self.scale, x) if self.both else x * self.scale


class Ways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Scaled(2.0, True), Scaled(3.0, True)
        self.third, self.fourth = Scaled(5.0, False), Scaled(7.0, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.one(x)
        c, d = self.other(a - b)
        return self.third(c + d) * self.fourth(x)


@pytest.mark.sweep
def test_results_of_two_kinds_with_numbers_of_their_own() -> None:
    translation = port.translate(Ways(), torch.randn(3, 4))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert [node.name for node in ast.parse(translation.source).body if isinstance(node, ast.ClassDef)] == [
        "Scaled",
        "Ways",
    ]


class DropPath(nn.Module):
    """Leaves out whole samples."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.p == 0.0 or not self.training:
            return x
        keep = 1 - self.p
        return x * x.new_empty(x.shape[0], 1).bernoulli_(keep) / keep


class Residual(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.path = DropPath(p)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.path(self.fc(x))


@pytest.mark.sweep
def test_a_rate_that_is_zero_in_some() -> None:
    blocks = nn.Sequential(Residual(0.0), Residual(0.1), Residual(0.2))
    translation = port.translate(blocks, torch.randn(9, 4))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    classes = {n.name: ast.unparse(n) for n in ast.parse(translation.source).body if isinstance(n, ast.ClassDef)}
    assert list(classes) == ["DropPath", "Residual", "Sequential"]
    assert "def __init__(self, p: float, *" in classes["DropPath"] and "1 - self.p" in classes["DropPath"]


class Windows(nn.Module):
    """Attention's bookkeeping: numbers that the constructor works out, and a shift that is 0 in every other one."""

    def __init__(self, heads: int, shift: int) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.heads, self.width, self.shift = heads, 8 // heads, shift
        self.scale = self.width**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.shift > 0:
            x = torch.roll(x, -self.shift, 1)
        x = (self.fc(x).unflatten(-1, (self.heads, self.width)) * self.scale).flatten(2)
        return torch.roll(x, self.shift, 1) if self.shift > 0 else x


@pytest.mark.sweep
def test_numbers_go_by_the_originals_names() -> None:
    classes = classes_of(nn.Sequential(Windows(2, 0), Windows(4, 1), Windows(2, 2)), 2, 5, 8)
    assert list(classes) == ["Windows", "Sequential"]
    assert "self.number" not in classes["Windows"] and "-self.shift" in classes["Windows"]


class Several(nn.Module):
    """Takes a list, a tuple and a dict, and gives a list."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(
        self, xs: list[torch.Tensor], pair: tuple[torch.Tensor, torch.Tensor], table: dict[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        xs = [self.fc(x) * table["by"] for x in xs]
        return [xs[0] + pair[0], xs[1] * pair[1]]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.gru(x)


class Gives(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.several, self.recurrent = Several(), Recurrent()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = self.several([x, 2 * x], (x - 1, x - 2), {"by": x + 1})
        return self.recurrent(one + other)[0]


@pytest.mark.sweep
def test_annotations_say_what_is_given() -> None:
    classes = classes_of(Gives(), 2, 3, 4)
    assert (
        "def __call__(self, xs: list[jax.Array], pair: tuple[jax.Array, ...], table: dict[str, jax.Array]) -> Any"
        in classes["Several"]
    )
    assert "def __call__(self, x: jax.Array) -> Any" in classes["Recurrent"]
    assert "def __call__(self, x: jax.Array) -> jax.Array" in classes["Gives"]
