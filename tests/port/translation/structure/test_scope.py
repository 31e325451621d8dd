"""Names of values: before a variable is reassigned, its value is kept under the original's other name."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port


class Residual(nn.Module):
    """As transformers write a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix, self.up = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.norm(x)
        x = self.mix(x).sin()
        x = residual + x
        residual = x
        x = self.norm(x)
        x = self.up(x).cos()
        return residual + x


class Unnamed(nn.Module):
    """What it was has no other name, and is read through another variable's first part."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def forward(self, pair: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        first = pair[0]
        kept = x * 2
        x = self.mix(x)
        y = x.sin() + first + pair[1]
        x = self.mix(y)
        return x + y + kept


class Chained(nn.Module):
    """A name for what another name was."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        first = x
        x = self.one(x)
        second = x
        x = self.other(x)
        x = x * second
        return x - first


def source(module: nn.Module, *args: object) -> str:
    made = port.translate(module, args)
    assert made.proof is not None and made.proof.agrees, made.proof
    return made.source


@pytest.mark.sweep
def test_what_a_variable_was_is_called_as_the_original_does() -> None:
    text = source(Residual(), torch.randn(3, 5, 6))
    assert text.count("        residual = x\n") == 2
    assert "x2" not in text and text.count("residual + x") == 2


@pytest.mark.sweep
def test_two_at_once() -> None:
    text = source(Chained(), torch.randn(3, 6))
    assert "        first = x\n" in text and "        second = x\n" in text and "x2" not in text


@pytest.mark.sweep
def test_nothing_is_set_aside_without_a_name() -> None:
    text = source(Unnamed(), (torch.randn(3, 6), torch.randn(3, 6)), torch.randn(3, 6))
    assert " = x\n" not in text
