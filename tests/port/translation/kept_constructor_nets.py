"""Modules whose constructors are given classes, and make what they hold in loops, branches and methods."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Plain(nn.Module):
    """One layer, and what goes past it."""

    growth = 1

    def __init__(self, width_in: int, width: int, past: nn.Module | None = None, norm: Any = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(width_in)
        self.linear = nn.Linear(width_in, width * self.growth, bias=False)
        self.past = past

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(self.norm(x))) + (x if self.past is None else self.past(x))


def projection(width_in: int, width_out: int) -> nn.Linear:
    return nn.Linear(width_in, width_out)


class Staged(nn.Module):
    """Stages of blocks, as many as are asked for."""

    def __init__(
        self, block: type[Plain], depths: list[int], width: int = 5, classes: int = 3, double: bool = False
    ) -> None:
        super().__init__()
        self.reached = width
        self.stem = nn.Linear(7, width)
        self.activation = nn.ReLU()
        self.first = self._stage(block, width, depths[0])
        self.second = self._stage(block, 2 * width, depths[1])
        self.head = nn.Linear(self.reached, 2 * classes if double else classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def _stage(self, block: type[Plain], width: int, depth: int) -> nn.Sequential:
        past = None
        if self.reached != width * block.growth:
            past = projection(self.reached, width * block.growth)
        norm = partial(nn.LayerNorm, eps=1e-3)
        blocks = [block(self.reached, width, past, norm)]
        self.reached = width * block.growth
        for _ in range(1, depth):
            blocks.append(block(self.reached, width, norm=norm))
        return nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(self.activation(self.stem(x)))))
