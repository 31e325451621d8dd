"""User-defined layer classes among a constructor's arguments."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from port.translation.frontend.construction.argument_classes import layer_classes_in, module_classes_made
from port.translation.frontend.construction.constructed_values import ConstructedValue


class Wide(nn.Linear):
    def __init__(self, width: int) -> None:
        super().__init__(width, 2 * width)


class Wider(Wide):
    def __init__(self, width: int) -> None:
        super().__init__(2 * width)


class Inheriting(nn.Linear):
    """Inherits torch's constructor, so it is written like torch's layer."""


class NoLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()


LAYERS = frozenset({Wide, Wider, Inheriting, nn.Linear})


def test_they_are_found_in_whatever_holds_them() -> None:
    for held in (Wide, [Wide], (1, {"layer": Wide}), partial(Wide, width=3), ConstructedValue(NoLayer, {"of": [Wide]})):
        assert layer_classes_in({"given": held}, LAYERS) == {Wide}


def test_what_they_derive_from_is_written_too() -> None:
    assert layer_classes_in({"given": Wider}, LAYERS) == {Wide, Wider}


def test_others_are_not_among_them() -> None:
    given = {"own": NoLayer, "torch": nn.Linear, "inheriting": Inheriting, "function": torch.tanh, "number": 3}
    assert not layer_classes_in(given, LAYERS)
    assert not layer_classes_in({"given": Wide}, frozenset({nn.Linear}))


def test_modules_that_are_made_for_a_constructor() -> None:
    inside = ConstructedValue(NoLayer, {"of": [ConstructedValue(Wide, {"width": 3})]})
    assert module_classes_made({"given": (inside, NoLayer), "made": ConstructedValue(dict, {})}) == {NoLayer, Wide}
    assert not module_classes_made({"given": [Wide, 3], "torchs": ConstructedValue(nn.Linear, {})})
