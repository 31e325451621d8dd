"""Modules that leave out layers by a number that they draw, written as public code writes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 6


class Layer(nn.Module):
    """Gives a tuple, as layers of many libraries do."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.dropout(torch.tanh(self.linear(x))), None


class Stack(nn.Module):
    """Layers, of which each is left out at a rate."""

    def __init__(self, dropout: float = 0.0, rate: float = 0.4, layers: int = 3) -> None:
        super().__init__()
        self.layers, self.rate = nn.ModuleList(Layer(dropout) for _ in range(layers)), rate


class Named(Stack):
    """The condition has a name, and the mode stands in the branch."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            skip = torch.rand([]) < self.rate
            if not skip or not self.training:
                x = x + layer(x)[0]
        return x


class Continued(Stack):
    """A layer is left out by ``continue``."""

    def forward(self, x: Tensor, all_states: bool = False) -> Tensor | tuple[Tensor, ...]:
        states: tuple[Tensor, ...] = ()
        for layer in self.layers:
            if all_states:
                states += (x,)
            if self.training:
                probability = torch.rand([])
                if probability < self.rate:
                    continue
            outputs = layer(x)
            x = outputs[0]
        return states if all_states else x


class Flagged(Stack):
    """A flag is set in one branch, and what a layer left out gives is nothing."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            to_drop = False
            if self.training:
                probability = torch.rand([])
                if probability < self.rate:
                    to_drop = True
            if to_drop:
                outputs = (None, None)
            else:
                outputs = layer(x)
                x = outputs[0]
        return x


class Synchronised(Stack):
    """The condition holds the mode, another flag of Python's stands beside it."""

    def forward(self, x: Tensor) -> Tensor:
        synchronised = False
        for layer in self.layers:
            skip_the_layer = self.training and torch.rand([]) < self.rate
            if not skip_the_layer or synchronised:
                x = layer(x)[0]
            if skip_the_layer:
                outputs = (None, None)  # noqa: F841
        return x


class Whole(nn.Module):
    """Gives a tensor alone."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = Layer(dropout)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x)[0]
        return made


class Commented(nn.Module):
    """Training alone draws, and a comment stands where both modes meet again."""

    def __init__(self, dropout: float = 0.0, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Whole(dropout) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            skip = False
            if self.training:
                probability = torch.rand([])
                skip = probability < 0.4  # type: ignore[assignment]
            if not skip:
                # each layer by itself
                x = layer(x)
        return x


class Block(Layer):
    """Stochastic depth: a block is left by an early return."""

    def __init__(self, rate: float = 0.5) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        if self.training and torch.rand(1) < self.rate:
            return x
        return x + super().forward(x)[0] / (1 - self.rate)


class Deep(nn.Module):
    """Such blocks; a drawn number also decides between two numbers, and one is drawn that only training reads."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        u = torch.rand(())
        x = self.blocks(x) * (2.0 if not self.training or u < 0.5 else 1.0)
        return x + 0.1 * torch.randn_like(x)


class Either(Stack):
    """One layer or another, and a scale that one branch alone has."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.rand([]) < 0.5:
            y, scale = self.layers[0](x)[0], 2.0
        else:
            y, scale = self.layers[1](x)[0], 0.5
        return y * scale + self.layers[2](x)[0]


class Unread(Stack):
    """Draws that nothing reads, before, between and behind those that are read."""

    def forward(self, x: Tensor) -> Tensor:
        unused = torch.rand(())
        x = self.layers[0](x)[0]
        twice = 2 * torch.rand(3) + unused  # noqa: F841
        x = x + torch.randn_like(x)
        torch.rand(2)
        return x


def scaled(by: float) -> Callable[[Any], Any]:
    """A decorator that calls what it decorates."""

    def decorator(forward: Any) -> Any:
        @wraps(forward)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return by * forward(self, *args, **kwargs)

        return wrapper

    return decorator


def noted(forward: Any) -> Any:
    """A decorator that gives back what it decorates."""
    forward.is_noted = True
    return forward


class Decorated(Stack):
    """The method that draws stands behind decorators."""

    @scaled(by=0.5)
    @scaled(by=3.0)
    @noted
    def forward(self, x: Tensor, *, shift: float = 0.25) -> Tensor:
        for layer in self.layers:
            is_dropped = False
            if self.training and self.rate > 0.0:
                probability = torch.rand([])
                if probability < self.rate:
                    is_dropped = True
            if not is_dropped:
                x = x + layer(x)[0]
        return x + shift


MODELS = {
    made.__name__.lower(): made
    for made in (Named, Continued, Flagged, Synchronised, Commented, Either, Unread, Decorated)
}
