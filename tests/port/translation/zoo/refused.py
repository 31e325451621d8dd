"""What cannot be translated: the numbers themselves decide what is computed."""

from __future__ import annotations

import torch
import torch.nn as nn
from torch import Tensor

from .example import Example, floats, given, integers

REFUSED = "data-dependent"


class EarlyExit(nn.Module):
    """A batch that is sure enough leaves early."""

    def __init__(self, dim: int = 5, classes: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.early = nn.Linear(dim, classes)
        self.second = nn.Linear(dim, dim)
        self.late = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        confidence = self.early(x).softmax(dim=-1).amax(dim=-1)
        if confidence.min() > 0.9:
            return self.early(x)
        return self.late(self.second(x).relu())


class UntilConverged(nn.Module):
    """A deep equilibrium: a loop that ends when nothing moves."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        while True:
            new = torch.tanh(0.1 * self.w(z) + x)
            if torch.linalg.norm(new - z) < 1e-4:
                return new
            z = new


class LongestOnly(nn.Module):
    """As many steps as the longest sequence of the batch has."""

    def __init__(self, features: int = 3, hidden: int = 4) -> None:
        super().__init__()
        self.cell = nn.RNNCell(features, hidden)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        h = x.new_zeros(x.size(0), self.cell.hidden_size)
        for t in range(int(lengths.max())):
            h = self.cell(x[:, t], h)
        return h


EXAMPLES = (
    Example("early_exit", EarlyExit, lambda: given(floats(3, 5)), "an if on numbers", REFUSED),
    Example("until_converged", UntilConverged, lambda: given(floats(2, 4)), "a while on numbers", REFUSED),
    Example("longest_only", LongestOnly, lambda: given(floats(3, 5, 3), integers(4, 3) + 1), "a range of one", REFUSED),
)
