"""Small image models whose axes a mesh of eight devices divides: a residual network, and patches in a transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ResidualBlock(nn.Module):
    def __init__(self, taken: int, given: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(taken, given, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(given), nn.BatchNorm2d(given)
        self.conv2 = nn.Conv2d(given, given, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(taken, given, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.ModuleList([ResidualBlock(16, 24), ResidualBlock(24, 32)])
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Patches(nn.Module):
    """Squares of an image, embedded, mixed and classified."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 40), nn.Linear(40, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        return self.head(x.mean(1))
