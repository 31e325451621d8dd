"""Modules that are given numbers with their tensors, and cut them into windows: of one of them, or of many."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class Cut(nn.Module):
    """Windows of an image, the channels last."""

    def forward(self, x: Tensor, p: int) -> Tensor:
        B, C, H, W = x.shape
        x = x.reshape(B, C, H // p, p, W // p, p)
        x = x.permute(0, 2, 4, 3, 5, 1)
        return x.reshape(B, (H // p) * (W // p), p * p, C)


class Joined(nn.Module):
    """The image again."""

    def forward(self, x: Tensor, p: int, rows: int, columns: int) -> Tensor:
        B, _, _, C = x.shape
        x = x.reshape(B, rows, columns, p, p, C)
        x = x.permute(0, 5, 1, 3, 2, 4)
        return x.reshape(B, C, rows * p, columns * p)


class Swapped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.swapaxes(1, 2)


class WithinWindows(nn.Module):
    """What lies in one window, or what lies in one place of all windows, attends to one another."""

    def __init__(self, width: int, window: int, size: int, across: bool) -> None:
        super().__init__()
        self.size = size
        self.p = size // window if across else window
        self.cut, self.joined = Cut(), Joined()
        self.swap = Swapped() if across else nn.Identity()
        self.back = Swapped() if across else nn.Identity()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.swap(self.cut(x, self.p))
        weights = (self.norm(y) @ y.transpose(-1, -2)).softmax(-1)
        y = y + weights @ self.linear(y)
        return self.joined(self.back(y), self.p, self.size // self.p, self.size // self.p)


class Windows(nn.Module):
    """Each stage has a quarter of the windows that the one before has; the last may have one alone."""

    def __init__(self, width: int, window: int, size: int, depth: int, drop: float = 0.2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 1)
        self.stages = nn.ModuleList()
        for rate in np.linspace(0.0, drop, depth).tolist():
            within, across = WithinWindows(width, window, size, False), WithinWindows(width, window, size, True)
            self.stages.append(nn.Sequential(within, across, nn.AvgPool2d(2), nn.Dropout(rate)))
            size = size // 2

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return x


class Shifting(nn.Module):
    """Given a number, and whether to use it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, by: int, scale: float = 1.0) -> Tensor:
        return self.linear(torch.roll(x, by, 1)) * scale


class Shifted(nn.Module):
    """One module is called with several numbers; another with what its own constructor was given."""

    def __init__(self, width: int, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.one, self.other = Shifting(width), Shifting(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x, 1) + self.one(x, 2, scale=0.5)
        return self.other(x, self.shift)
