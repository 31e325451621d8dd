"""Paths in the twin for user classes that derive from torch's lists of modules."""

from __future__ import annotations

import pytest
from torch import nn

from port.translation.ir.module_tree import ModuleTree


class Listed(nn.ModuleList):
    """Of one's own."""


class Named(nn.ModuleDict):
    """Of one's own."""


class WithLayers(nn.ModuleList):
    """Has an attribute of the list's name."""

    layers = 3


def tree(*held: nn.Module) -> ModuleTree:
    return ModuleTree(nn.Sequential(*held), {})


@pytest.mark.parametrize(
    ("held", "steps"),
    [
        (Listed([nn.Tanh(), nn.Tanh()]), ("layer_0", "layers", 1)),
        (Named({"part1": nn.Tanh(), "part2": nn.Tanh()}), ("layer_0", "layers", 1)),
        (Named({"part_0": nn.Tanh(), "part_1": nn.Tanh()}), ("layer_0", "layers", 1)),
        (Named({"part1": nn.Tanh(), "part3": nn.Tanh()}), ("layer_0", "part3")),
        (Named({"part1": nn.Tanh(), "other2": nn.Tanh()}), ("layer_0", "other2")),
        (Named({"part": nn.Tanh(), "other": nn.Tanh()}), ("layer_0", "other")),
        (WithLayers([nn.Tanh(), nn.Tanh()]), ("layer_0", "layer_1")),
        (nn.ModuleList([nn.Tanh(), nn.Tanh()]), ("layer_0", 1)),
    ],
)
def test_modules_whose_names_count_are_items_of_a_list(held: nn.Module, steps: tuple[str | int, ...]) -> None:
    last = list(held._modules)[-1]
    assert tree(held).steps(f"0.{last}") == steps


def test_a_class_holds_a_list_where_all_its_instances_do() -> None:
    one, other = Named({"part1": nn.Tanh()}), Named({"part": nn.Tanh()})
    assert not tree(one, other).is_list("0")
    assert tree(one, Named({})).is_list("0")
