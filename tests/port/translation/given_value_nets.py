"""Modules whose constructors are given modules, objects, and classes that inherit a layer's constructor."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BlockSetting:
    """Its constructor keeps another thing than it is given."""

    def __init__(self, width: int, kind: str, ratio: float = 1.0) -> None:
        self.width = self.scaled(width, ratio)
        self.is_gated = kind == "gated"

    @staticmethod
    def scaled(width: int, ratio: float) -> int:
        return int(width * ratio)


class Doubled(nn.LayerNorm):
    """A layer of PyTorch's with a call of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class Trunked(nn.Module):
    """A trunk that somebody else makes, and a block for each setting."""

    def __init__(
        self, trunk: nn.Module, settings: list[BlockSetting], classes: int = 3, norm: type[nn.Module] = Doubled
    ) -> None:
        super().__init__()
        self.trunk = trunk
        width = 4
        blocks: list[nn.Module] = []
        for setting in settings:
            # each is as wide as its setting says
            blocks.append(self.block(width, setting))
            blocks.append(norm(setting.width))
            width = setting.width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, classes)

    @staticmethod
    def block(width: int, setting: BlockSetting) -> nn.Module:
        if setting.is_gated:
            return nn.Sequential(nn.Linear(width, 2 * setting.width), nn.GLU())
        return nn.Linear(width, setting.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.blocks(self.trunk(x))))


def trunk(widths: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    before = 7
    for width in widths:
        layers += [nn.Linear(before, width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers)


def small() -> Trunked:
    return Trunked(trunk([5, 4]), [BlockSetting(6, "gated"), BlockSetting(3, "plain", 2.0)])


def large() -> Trunked:
    settings = [BlockSetting(9, "plain"), BlockSetting(5, "gated"), BlockSetting(4, "plain", 1.5)]
    return Trunked(trunk([6, 8, 4]), settings, classes=2)
