"""Modules whose ``forward`` calls other methods of theirs."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.1)

    def split_heads(self, x: Tensor) -> Tensor:
        """Give each head an axis of its own."""
        B, T, C = x.shape
        return x.view(B, T, self.heads, C // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        y = self.attend(self.split_heads(q), self.split_heads(k), self.split_heads(v))
        return self.proj(y.transpose(1, 2).flatten(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
        return self.drop(weights.softmax(-1)) @ v


class Block(nn.Module):
    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def feed_forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.down(F.dropout(F.gelu(self.up(x)), 0.1, self.training)) * scale

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.feed_forward(x, scale=0.5) + self.feed_forward(self.norm(x), 2.0)


class Encoder(nn.Module):
    """Blocks, and methods of one module that call one another."""

    def __init__(self, dim: int = 12, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, 5)

    def encode(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def pool(self, x: Tensor) -> dict[str, Tensor]:
        x = self.encode(x)
        return {"mean": x.mean(1), "most": x.amax(1)}

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pool(x)
        return self.head(pooled["mean"] + pooled["most"])


class TwoWays(nn.Module):
    """A method whose calls do different things."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def step(self, x: Tensor, last: bool) -> Tensor:
        return self.linear(x) if last else torch.tanh(self.linear(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self.step(x, False), True)


class Gated(nn.Module):
    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.gated = gated
        self.linear = nn.Linear(6, 6)
        self.gate = nn.Linear(6, 6) if gated else None

    def mix(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y * self.gate(x).sigmoid() if self.gate is not None else y

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.mix(x)) + x


class InstancesDiffer(nn.Module):
    """Two instances whose methods do different things."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Gated(True), Gated(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Counting(nn.Module):
    """A method that writes to a buffer, and one that gives nothing."""

    mean: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("count", torch.zeros(()))

    def centred(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean

    def count_up(self, x: Tensor) -> None:
        self.count += x.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        self.count_up(x)
        return self.linear(self.centred(x))


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def prepared(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.prepared(x).tanh()


class Derived(Base):
    """A method in the place of a base's, which it calls; and one that is called as one of Flax's."""

    def prepared(self, x: Tensor) -> Tensor:
        return super().prepared(x) + self.perturb(x)

    def perturb(self, x: Tensor) -> Tensor:
        return self.linear(x * x)


class Stepping(nn.Module):
    """A method that each round of a loop calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 8)

    def next_state(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.inner(x) + self.outer(h))

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 8)
        for t in range(x.shape[1]):
            h = self.next_state(x[:, t], h)
        return h


class Recursive(nn.Module):
    """A method that calls itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def deeper(self, x: Tensor, depth: int) -> Tensor:
        return self.linear(x) if depth == 0 else self.deeper(torch.sin(x), depth - 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.deeper(x, 2)


class Borrowing(nn.Module):
    """Holds a method of a module within by a name that it has a method by, too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Base()
        self.linear = nn.Linear(6, 6)
        self.prepared = self.inner.prepared

    def forward(self, x: Tensor) -> Tensor:
        return self.prepared(self.linear(x)) + self.inner(x)


class DropsItself(nn.Module):
    """A method by the name of the layer that is added for what it draws."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training) * 2.0 + 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.dropout(x)) + self.dropout(x)


class Optional(nn.Module):
    """A method that is given a mask in some calls of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def scores(self, x: Tensor, mask: Tensor | None) -> Tensor:
        made = self.linear(x)
        if mask is not None:
            made = made.masked_fill(mask, -1.5)
        return made

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.scores(x, mask).softmax(-1)


def applied(function: Any, *tensors: Tensor) -> Tensor:
    """Calls what it is given, if that takes as many tensors."""
    if len(inspect.signature(function).parameters) != len(tensors):
        raise ValueError(f"it takes {inspect.signature(function)}")
    return function(*tensors)


def halved(x: Tensor) -> Tensor:
    return x * 0.5


class Handing(nn.Module):
    """Gives a method and a function to a function, which asks for their parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        return applied(self.feed_forward, x) + applied(halved, x)


class Normed(nn.Module):
    """As GPTs have it: the normalized shape is read off the weight, in a module that a method calls."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.bias = nn.Parameter(torch.rand(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class NormedInAMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Normed(6), Normed(6)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) * self.first.weight.shape[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.scaled(x))
