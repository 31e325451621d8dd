"""Modules whose constructors are given classes, and make what they hold in loops, branches and methods."""

from __future__ import annotations

import math
from collections import OrderedDict
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
        self.scale = nn.Parameter(torch.full((1, width), 0.5))
        self.past = past

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * torch.tanh(self.linear(self.norm(x))) + (x if self.past is None else self.past(x))


def projection(width_in: int, width_out: int) -> nn.Linear:
    return nn.Linear(width_in, width_out)


class Staged(nn.Module):
    """Stages of blocks, as many as are asked for."""

    def __init__(
        self,
        block: type[Plain],
        depths: list[int],
        width: int = 5,
        classes: int = 3,
        norm: Any = None,
        last: str = "linear",
    ) -> None:
        super().__init__()
        self.norm = partial(nn.LayerNorm, eps=1e-3) if norm is None else norm
        self.reached = width
        self.last = last
        self.stem = nn.Linear(7, width)
        self.activation = nn.ReLU()
        self.first = self._stage(block, width, depths[0])
        self.second = self._stage(block, 2 * width, depths[1])
        self.head = nn.Linear(self.reached, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def _stage(self, block: type[Plain], width: int, depth: int) -> nn.Sequential:
        past = None
        if self.reached != width * block.growth:
            past = projection(self.reached, width * block.growth)
        blocks = [block(self.reached, width, past, self.norm)]
        self.reached = width * block.growth
        for _ in range(1, depth):
            blocks.append(block(self.reached, width, norm=self.norm))
        return nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        made = self.head(self.second(self.first(self.activation(self.stem(x)))))
        return made.softmax(-1) if self.last == "softmax" else made


class Wider(nn.Module):
    """Its constructor reads a property, which the written class has not."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width * self.factor)

    @property
    def factor(self) -> int:
        return 2

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Outer(nn.Module):
    """Is given a class whose constructor cannot be kept."""

    def __init__(self, block: type[nn.Module], width: int) -> None:
        super().__init__()
        self.inner = block(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Frozen(nn.Module):
    """Holds what torch does not train."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)
        self.linear.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Switched(nn.Module):
    """What it makes of a switch stands in one line; its call says none of it."""

    def __init__(self, width: int, is_deep: bool = False) -> None:
        super().__init__()
        # one layer, or two
        self.linear = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 3)) if is_deep else nn.Linear(3, width)
        self.head = nn.Linear(3 if is_deep else width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.linear(x)))


class Filled(nn.Module):
    """Changes numbers of what it has made, reads what Python's modules hold, makes a buffer that nothing reads."""

    def __init__(self, width: int, is_masked: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, width)
        self.embedding.weight.data[:, 1:].fill_(0.5)
        self.turn = math.cos(math.pi - width)
        if is_masked:
            self.register_buffer("mask", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(self.embedding(x) > self.turn, self.turn, 1.0)


class Pair(nn.Sequential):
    """Its modules have names."""

    def __init__(self, width_in: int, width: int) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["linear"] = nn.Linear(width_in, width)
        layers["tanh"] = nn.Tanh()
        super().__init__(layers)


class Stem(Pair):
    """Comes before another instance of the class that it derives from."""

    def __init__(self, width: int) -> None:
        super().__init__(3, width)


class Skipping(nn.Module):
    """Has a module, or none."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.past = None
        if width_in != width:
            self.past = nn.Linear(width_in, width)
        self.pair = Pair(width_in, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.pair(x) + (x if self.past is None else self.past(x))


class Deriving(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = Stem(width)
        self.blocks = nn.Sequential(Skipping(width, width), Skipping(width, 2 * width))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x))


class Doubled(nn.Module):
    """Another block, with a second layer."""

    growth = 2

    def __init__(self, width_in: int, width: int, past: nn.Module | None = None, norm: Any = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(width_in)
        self.layers = nn.Sequential(projection(width_in, width), nn.Tanh(), projection(width, width * self.growth))
        self.past = past

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.norm(x)) + (x if self.past is None else self.past(x))


class Gathering(Staged):
    """Hands on whatever it is given to what it derives from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.bias


class Named(nn.Module):
    """Its call says nothing of what it is given."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class Branching(nn.Module):
    """Has a branch, or an empty one, which its call tells by the number that its constructor tells it by."""

    def __init__(self, width: int, step: int) -> None:
        super().__init__()
        self.step = step
        if step > 1:
            self.branch = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        else:
            self.branch = nn.Sequential()
        self.other = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.step == 1:
            return x + self.other(x)
        return self.branch(x) * self.other(x)


class Branched(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(Named("in"), nn.Linear(3, width), Named("out"))
        self.one, self.two = Branching(width, 1), Branching(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(self.stem(x)))
