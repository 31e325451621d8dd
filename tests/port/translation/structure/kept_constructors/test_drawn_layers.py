"""Initialisation of layers that one call of a kept constructor creates."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from tests.port.translation.agreeing import translated


class DrawnByWhatGoesOut(nn.Module):
    """One call makes layers of several widths, each drawn by its own."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        layers = [nn.Conv1d(before, after, 3) for before, after in itertools.pairwise(widths)]
        self.layers = nn.Sequential(*layers)
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_layers_of_one_call_that_are_drawn_by_their_widths_are_said_alike() -> None:
    torch.manual_seed(0)
    construct = lambda: DrawnByWhatGoesOut((3, 5, 7, 4))  # noqa: E731
    made = translated(construct(), torch.randn(2, 3, 9), construct=construct, static=True, sizes_limit=0.0)
    assert made.elsewhere is not None and made.elsewhere.keeps_constructors
    assert 'kernel_init=nnx.initializers.variance_scaling(2.0, "fan_out", "normal")' in made.source
