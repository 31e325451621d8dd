"""Constructors read values that they have computed from their attributes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.codegen.constructors import _reusing_attributes
from port.translation.ir.syntax import parsed, source


def reused(**attributes: str) -> list[str]:
    return [
        source(each) for each in _reusing_attributes({name: parsed(text) for name, text in attributes.items()}).values()
    ]


def test_what_is_worked_out_is_read_again() -> None:
    assert reused(head_dim="dim // heads", scale="(dim // heads) ** -0.5", out="f(heads * (dim // heads))") == [
        "dim // heads",
        "self.head_dim ** -0.5",
        "f(heads * self.head_dim)",
    ]
    assert reused(size="int(a / b)", other="int(a / b) + 1") == ["int(a / b)", "self.size + 1"]


def test_arguments_numbers_and_arrays_are_not() -> None:
    assert reused(dim="dim", twice="2 * 3", other="f(dim, 2 * 3)")[2] == "f(dim, 2 * 3)"
    assert reused(array="jnp.ones(dim) * 2", other="f(jnp.ones(dim) * 2)")[1] == "f(jnp.ones(dim) * 2)"
    assert reused(first="f(a // b)", later="a // b") == ["f(a // b)", "a // b"]


@dataclass
class Config:
    """Of sizes."""

    dim: int
    heads: int


class Heads(nn.Module):
    """It works out a size, and uses it twice."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_dim = config.dim // config.heads
        self.fc = nn.Linear(config.dim, 3 * self.head_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).reshape(*x.shape[:-1], 3, self.head_dim)


@pytest.mark.sweep
def test_as_the_original_reads_it() -> None:
    made = port.translate(Heads(Config(6, 2)), torch.randn(2, 6), construct=lambda: Heads(Config(6, 2)))
    assert made.proof is not None and made.proof.agrees
    assert "self.head_dim = config.dim // config.heads" in made.source
    assert "config.dim, 3 * self.head_dim," in made.source
