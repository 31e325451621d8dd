"""Modules whose constructors' arguments reach the source by ways that are easily lost."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations


@dataclass
class LayerConfig:
    width: int = 12
    inner: int = 8
    is_decoder: bool = True


class Unfolded(nn.Module):
    """The last items of a shape of which the first ones are another tensor's by then."""

    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.head_width = width // heads
        self.keys_and_values = nn.Linear(width, 2 * width)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        keys, values = self.keys_and_values(x).split(self.width, dim=2)
        shape = (*keys.shape[:-1], -1, self.head_width)
        keys = keys.view(shape).transpose(1, 2)
        values = values.view(shape).transpose(1, 2)
        return torch.tanh(keys) * values


class Inner(nn.Module):
    """What is given a configuration of the holder's own."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(config.width, config.inner), nn.Linear(config.inner, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class CopiedConfig(nn.Module):
    """Gives a copy of its configuration on, with another field."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        own = copy.deepcopy(config)
        own.is_decoder = False
        self.inner = Inner(own)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class DropsByHand(nn.Module):
    """Masks drawn by functions, at rates that a layer and an attribute hold."""

    def __init__(self, width: int = 12, first: float = 0.2, second: float = 0.3) -> None:
        super().__init__()
        self.drop, self.rate = nn.Dropout(first), second
        self.linear = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(x, p=self.drop.p, training=self.training)
        return functional.dropout(self.linear(x), p=self.rate, training=self.training)


class Expanded(nn.Module):
    """Groups of heads share what is expanded to them; one group takes nothing of it."""

    def __init__(self, width: int = 24, heads: int = 6, groups: int = 3) -> None:
        super().__init__()
        if heads % groups or width % heads:
            raise ValueError("heads are divided among groups, and the width among heads")
        self.times, self.head_width = heads // groups, width // heads
        self.keys = nn.Linear(width, groups * self.head_width)

    def forward(self, x: Tensor) -> Tensor:
        keys = self.keys(x).view(x.shape[0], x.shape[1], -1, self.head_width).transpose(1, 2)
        if self.times == 1:
            return keys
        n, groups, length, width = keys.shape
        keys = keys[:, :, None].expand(n, groups, self.times, length, width)
        return torch.tanh(keys.reshape(n, groups * self.times, length, width))


class Block(nn.Module):
    """The first one has a table more."""

    def __init__(self, config: LayerConfig, first: bool) -> None:
        super().__init__()
        self.inner = Inner(config)
        self.table = nn.Embedding(3, config.width) if first else None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is not None:
            x = x + self.table.weight.mean(0)
        return self.inner(x)


class FirstIsOther(nn.Module):
    """Blocks of one class that are two in the source."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(config, first=place == 0) for place in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Parametrized(nn.Module):
    """A layer whose class is made for it alone."""

    def __init__(self, width: int = 12, inner: int = 8) -> None:
        super().__init__()
        self.normed = parametrizations.weight_norm(nn.Linear(12, 12))
        self.up, self.down = nn.Linear(12, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(self.normed(x))))


class Dependent(nn.Module):
    """Conditions that each ask for the one before twice, down to two that decide each other.

    What those two give is cut short and not kept: without a memory the last condition asks 2¹³ questions.
    """

    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.head_width = width // heads
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, causal: bool = False, bias: Tensor | None = None) -> Tensor:
        if causal:
            bias = bias
        if bias is not None:
            causal = False
        a = not causal
        b = a == a
        c = b == b
        d = c == c
        e = d == d
        f = e == e
        g = f == f
        h = g == g
        i = h == h
        j = i == i
        k = j == j
        m = k == k
        n = m == m
        shape = (*x.shape[:-1], -1, self.head_width) if n else (*x.shape[:-1], -1, 1)
        return torch.tanh(self.linear(x).view(shape))
