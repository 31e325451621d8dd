"""Expands before a broadcasting operator are removed, unless the result's shape or type would change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port


class Each(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y.unsqueeze(1).expand_as(x)


class Both(nn.Module):
    """Every one less every other."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        t = x.size(1)
        return (x.unsqueeze(2).expand(-1, -1, t, -1) - x.unsqueeze(1).expand(-1, t, -1, -1)).sum(2) + y.unsqueeze(1)


class Alone(nn.Module):
    """What is expanded is longer than the other."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (y.unsqueeze(1).expand(-1, 4, -1) * 2.0 + y.unsqueeze(1)).sum(1) + x.sum(1)


@pytest.mark.parametrize(("cls", "expands"), [(Each, False), (Both, False), (Alone, True)])
def test_it_is_left_out(cls: type[nn.Module], expands: bool) -> None:
    made = port.translate(cls(), (torch.randn(2, 3, 5), torch.randn(2, 5)))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert ("broadcast_to" in made.source) == expands, made.source
