"""Instances of one class as one class: what differs between them is what its constructor takes."""

from __future__ import annotations

import ast

import torch
from torch import nn

import port

from .zoo.containers import Activations, ConvNormActivation


def classes_of(module: nn.Module, *shape: int) -> dict[str, str]:
    """The classes written for a module: name → source."""
    source = port.translate(module, torch.randn(shape), check=False).source
    return {node.name: ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


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


def test_results_of_two_kinds_with_numbers_of_their_own() -> None:
    translation = port.translate(Ways(), torch.randn(3, 4))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    assert [node.name for node in ast.parse(translation.source).body if isinstance(node, ast.ClassDef)] == [
        "Scaled",
        "Ways",
    ]
