"""Fields of a configuration that the code around a class does not have are literals in that class."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import pytest
import torch
from torch import nn

import port


@dataclass
class Config:
    features: int = 5
    hidden: int = 7


class Net(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(config.features, config.hidden), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Weighted(nn.Module):
    """Constructed with a tensor, which has no source form: so no constructor is translated from source."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight).sum()


class Together(nn.Module):
    def __init__(self, net: nn.Module, criterion: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.criterion = criterion

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.criterion(self.net(x))


class Level(IntEnum):
    HIGH = 5


class Kind(Enum):
    RELU = "relu"


@dataclass
class Odd:
    field: Any
    features: int = 4


class Reads(nn.Module):
    def __init__(self, config: Odd) -> None:
        super().__init__()
        self.config = config
        field = config.field
        width = field if isinstance(field, int) else field[0]
        self.net = nn.Linear(config.features, width.hidden if isinstance(width, Config) else width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.net(x)
        return x * self.config.field if isinstance(self.config.field, int) else x


FIELDS = {
    "int enum": Level.HIGH,
    "enum": (3, Kind.RELU),
    "list": [3, Kind.RELU],
    "configurations": (Config(3), Config()),
}


@pytest.mark.sweep
@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_a_field_that_source_cannot_hold_is_numbers(field: Any) -> None:
    made = port.translate(Reads(Odd(field)), (torch.randn(3, 4),), construct=lambda: Reads(Odd(field)))
    assert made.proof is not None and made.proof.agrees, made.proof
    assert "config.features" in made.source


@pytest.mark.parametrize("config", [Config(), Config(hidden=9)])
@pytest.mark.sweep
def test_a_configuration_that_is_not_given(config: Config) -> None:
    weight = torch.randn(config.hidden)

    def construct() -> nn.Module:
        return Together(Net(config), Weighted(weight))

    made = port.translate(construct(), (torch.randn(3, 5),), construct=construct)
    assert made.proof is not None and made.proof.agrees, made.proof
    assert f"nnx.Linear(5, {config.hidden}, " in made.source and "config." not in made.source
