"""The result of an inlined method has the caller's name for it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port


class Methods(nn.Module):
    """Its call is made of methods that are given a layer, and so are written out."""

    def __init__(self, width: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def scaled(self, layer: nn.Module, x: Tensor) -> Tensor:
        y = layer(x)
        result = y * 2
        return result.tanh()

    def inner(self, layer: nn.Module, x: Tensor) -> Tensor:
        return self.scaled(layer, x)

    def both(self, layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x + 1
        second = first.relu() * 2
        return first, second

    def step(self, layer: nn.Module, x: Tensor) -> Tensor:
        moved = layer(x)
        return x + moved.sin()

    def forward(self, x: Tensor) -> Tensor:
        x = self.scaled(self.fc, x) - 3
        hidden = self.inner(self.fc, x)
        pair = self.both(self.fc, hidden)
        y = pair[0] * pair[1] + pair[0]
        for layer in self.layers:
            y = self.step(layer, y)
        return y * hidden + hidden


@pytest.mark.sweep
def test_a_result_has_its_callers_name() -> None:
    made = port.translate(Methods(), torch.randn(2, 4), static=True)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    call = made.source[made.source.rindex("def __call__") : made.source.rindex("def load")]
    assert "hidden = jnp.tanh(result)" in call
    assert "x = jnp.tanh(result) - 3" in call  # what is done with a result is no result
    # Of two results neither is the pair.
    assert "first = hidden + 1" in call and "pair" not in call
    # Of the rounds of a loop the lines do not say where one ends.
    assert "y = value" not in call
