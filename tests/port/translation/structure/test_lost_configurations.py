"""Fields of a configuration that the code around a class does not have are literals in that class."""

from __future__ import annotations

from dataclasses import dataclass

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


@pytest.mark.parametrize("config", [Config(), Config(hidden=9)])
def test_a_configuration_that_is_not_given(config: Config) -> None:
    weight = torch.randn(config.hidden)

    def construct() -> nn.Module:
        return Together(Net(config), Weighted(weight))

    made = port.translate(construct(), (torch.randn(3, 5),), construct=construct)
    assert made.proof is not None and made.proof.agrees, made.proof
    assert f"nnx.Linear(5, {config.hidden}, " in made.source and "config." not in made.source
