"""Modules that reach what they compute with past ``named_modules``: by closures, partial functions, bound methods."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class ClosedBlock(nn.Module):
    """A transformer's feed-forward part as one line: the lambda closes over a dict of the block's own layers."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ff = nn.ModuleDict(
            {
                "up": nn.Linear(width, 3 * width),
                "act": nn.GELU(),
                "down": nn.Linear(3 * width, width),
                "drop": nn.Dropout(0.2),
            }
        )
        ff = self.ff
        self.feed = lambda x: ff["drop"](ff["down"](ff["act"](ff["up"](x))))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.feed(self.norm(x))


class Language(nn.Module):
    """Two such blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([ClosedBlock(), ClosedBlock()])
        self.head = nn.Linear(6, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ClosedParameters(nn.Module):
    """Functions that close over the parameters and the buffer themselves, and take them by default."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5))
        self.out = nn.Linear(5, 4)
        self.register_buffer("scale", torch.rand(5) + 0.5)
        weight, scale = self.weight, self.scale
        self.first = lambda x: (x @ weight) * scale

        def last(x: Tensor, layer: nn.Module = self.out, *, again: Tensor = self.out.weight) -> Tensor:
            return layer(x) @ again

        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x))


class Partly(nn.Module):
    """Partial functions of a method and of a static one, a method of another's stored, and a cached one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.other, self.drop = nn.Linear(6, 6), nn.Linear(6, 6), nn.Dropout(0.3)
        self.step = functools.partial(self._step, self.fc)
        self.scaled = functools.partial(self._scaled, self.other, scale=2.0)
        self.act = self.other.forward
        self.rows = functools.lru_cache(self._rows)

    def _step(self, layer: nn.Module, x: Tensor) -> Tensor:
        return self.drop(layer(x))

    @staticmethod
    def _scaled(layer: nn.Module, x: Tensor, scale: float) -> Tensor:
        return torch.tanh(layer(x)) * scale

    def _rows(self, count: int) -> Tensor:
        return self.fc.weight[:count]

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.scaled(self.step(x))) @ self.rows(6)


@dataclasses.dataclass
class Parts:
    """Layers as the fields of a dataclass."""

    query: nn.Module
    key: Callable[[Tensor], Tensor]


class Held(nn.Module):
    """A dict of bound methods, a list with one layer twice, a dataclass, a weak reference to itself, hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.heads: dict[Any, Any] = {"a": self.a.forward, "b": self._b, 3: [self.a, self.b, self.a]}
        self.parts = Parts(self.b, self.a.forward)
        self.itself = weakref.ref(self)
        gate = self.b
        self.a.register_forward_hook(lambda module, args, result: result * torch.sigmoid(gate(args[0])))

    def _b(self, x: Tensor) -> Tensor:
        return 2 * self.b(x)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.heads[3]:
            x = torch.tanh(layer(x))
        return self.heads["a"](x) * self.parts.query(x) + self.itself().heads["b"](x) - self.parts.key(x)  # type: ignore[union-attr]


HIDING: tuple[type[nn.Module], ...] = (Language, ClosedParameters, Partly, Held)
