"""The program of a model, from the runs of both modes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import port


class WithHelp(nn.Module):
    """A head behind flattened images, in training alone: in evaluation its weights are held, and nothing reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1)
        self.head, self.help = nn.Linear(3, 2), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        made: Tensor = self.head(x.mean((2, 3)))
        return made + self.help(torch.flatten(x, 1)) if self.training else made


def test_what_one_mode_alone_reads_has_that_modes_order_of_axes() -> None:
    torch.manual_seed(0)
    translation = port.translate(WithHelp(), torch.randn(5, 2, 2, 2), static=True)
    assert translation.proof is not None
    assert translation.proof.agrees
