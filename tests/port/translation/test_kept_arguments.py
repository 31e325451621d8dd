"""Constructor arguments that reach the source on ways where they are easily lost: each is kept and validated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import port
from port.translation.frontend.construction import arguments
from port.translation.frontend.origins.number_origins import NumberOrigins

from .kept_argument_nets import (
    CopiedConfig,
    Dependent,
    DropsByHand,
    Expanded,
    FirstIsOther,
    LayerConfig,
    Parametrized,
    Unfolded,
)

CASES: dict[str, tuple[Callable[[], nn.Module], int, tuple[str, ...]]] = {
    "the last items of a shape": (Unfolded, 12, ("self.head_width = width // heads", "-1, self.head_width)")),
    "a copy of a configuration": (lambda: CopiedConfig(LayerConfig()), 12, ("self.inner = Inner(config, ",)),
    "rates of masks": (
        DropsByHand,
        12,
        ("nnx.Dropout(first, ", "nnx.Dropout(self.drop.rate, ", "nnx.Dropout(self.rate, "),
    ),
    "what is expanded": (Expanded, 24, ("self.times, self.head_width = heads // groups, width // heads",)),
    "a first one that is another": (lambda: FirstIsOther(LayerConfig()), 12, ("Inner(config, ",)),
    "a layer with a class of its own": (
        Parametrized,
        12,
        ("nnx.Linear(12, inner, ", "nnx.Linear(inner, width, "),
    ),
}


def translated(make: Callable[[], nn.Module], width: int) -> port.translation.Translation:
    torch.manual_seed(5)
    module = make()
    return port.translate(module, torch.randn(2, 7, width), construct=make, static=True)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sweep
def test_it_is_kept(name: str) -> None:
    make, width, lines = CASES[name]
    made = translated(make, width)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    for line in lines:
        assert line in made.source, made.source
    assert not {"width", "heads", "groups", "first", "second", "inner"} & made.settings.fixed.keys()


@pytest.mark.sweep
def test_a_setting_is_tried_at_a_second_value_where_the_first_has_a_shorter_form() -> None:
    """Beside three groups of six heads: six of one head each, which is another source; and two, which is the same."""
    made = translated(Expanded, 24)
    assert "groups" not in made.settings.fixed
    assert any(tried.get("groups") == 2 for tried in made.settings.tried)


def test_a_copy_with_fields_of_two_configurations_is_neither() -> None:
    given = arguments.TrackedArguments()
    one, other = (given.known(LayerConfig(), number, "config") for number in (0, 1))
    assert given.origin_of_object(one) is not None
    mixed = LayerConfig(one.width, other.inner)
    assert given.origin_of_object(mixed) is None


@pytest.mark.sweep
def test_what_is_given_up_is_looked_for_once_more_with_a_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-1, self.head_width)" in translated(Dependent, 12).source
    monkeypatch.setattr(NumberOrigins, "has_given_up", False)
    assert "-1, 4)" in translated(Dependent, 12).source
