"""Units: what stands together, what a constant is, and what a unit is called."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from port.mapping.models import guide_of_torch
from port.matching.units import Unit, units_of


class Own(torch.nn.Module):
    """A module of a person's own: a kernel and a bias, and a constant beside them."""

    def __init__(self, *, is_told: bool = True) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.rand(3, 2))
        setattr(self, "bias" if is_told else "shift", torch.nn.Parameter(torch.rand(3)))
        self.register_buffer("table", torch.rand(1, 1, 2))
        self.register_buffer("running_mean", torch.rand(3))


def named(module: torch.nn.Module) -> dict[str, Unit]:
    return {" ".join(unit.names): unit for unit in units_of(guide_of_torch(module))}


def test_the_tensors_of_a_module_of_ones_own_stand_together_beside_its_constants() -> None:
    units = named(torch.nn.Sequential(Own()))
    assert set(units) == {"kernel bias running_mean", "table"}
    together = units["kernel bias running_mean"]
    assert together.seen == ("0", "0") and not together.is_constant and together.place == "0.kernel".rpartition(".")[0]
    assert together.role_names == {"weight": "kernel", "bias": "bias", "mean": "running_mean"}
    assert units["table"].is_constant and units["table"].seen == (None, None)


def test_where_a_parameter_has_no_role_each_stands_alone() -> None:
    units = named(torch.nn.Sequential(Own(is_told=False)))
    assert set(units) == {"kernel", "shift", "table", "running_mean"}
    assert not units["shift"].is_constant and units["shift"].role_names == {"weight": "shift"}


@pytest.mark.parametrize(
    ("layer", "family"),
    [
        (lambda: torch.nn.Linear(2, 3), "linear"),
        (lambda: torch.nn.Conv1d(2, 3, 2), "conv"),
        (lambda: torch.nn.ConvTranspose2d(2, 3, 2), "transposed convolution"),
        (lambda: torch.nn.LayerNorm(2), "norm"),
        (lambda: torch.nn.Embedding(4, 2), "embedding"),
    ],
)
def test_families(layer: Any, family: str) -> None:
    (unit,) = units_of(guide_of_torch(torch.nn.Sequential(layer())))
    assert unit.family == family and unit.label == "0.weight"
