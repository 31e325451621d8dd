"""Small models whose constructors do what no expression of their arguments says."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Looked(nn.Module):
    """How wide it is inside, no calculation says."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        hidden = {4: 6, 5: 9, 8: 10}.get(dim, 7)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class AtLeast(nn.Module):
    """A number is at least another one, which it is at the sizes nearby."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        hidden = max(8, dim // 2)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class MadeUp(nn.Module):
    """What follows from two arguments, the source does not say; they may make up for each other."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        assert dim % heads == 0
        self.fc = nn.Linear(dim, dim)
        self.heads = heads
        self.lengths = [dim // heads]

    def forward(self, x: Tensor) -> Tensor:
        parts = self.fc(x).reshape(x.shape[0], self.heads, *self.lengths)
        return torch.tanh(parts).sum(dim=1)


class Once(nn.Module):
    """Fails where it is constructed again."""

    made = 0

    def __init__(self, dim: int) -> None:
        super().__init__()
        if Once.made:
            raise RuntimeError("one is enough")
        Once.made += 1
        self.fc = nn.Linear(dim, dim + 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x))


SHARED: dict[str, Any] = {"width": 5}


class ReadsShared(nn.Module):
    """Reads what stands outside of it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, SHARED["width"])
        self.down = nn.Linear(SHARED["width"], dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class Branching(nn.Module):
    """A comparison says which calculation a number follows from."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        hidden = 8 if dim < 20 else dim // 2
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Stepped(nn.Module):
    """A number is the same for many sizes."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        hidden = len(str(dim)) + 3
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Window(nn.Module):
    """What follows from two arguments, the source does not say."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.heads = heads
        self.lengths = [dim // heads]

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x).reshape(x.shape[0], self.heads, *self.lengths)).flatten(1)


class Windows(nn.Module):
    """In all instances two arguments make up for each other."""

    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.one, self.merge, self.other = Window(dim, heads), nn.Linear(dim, 2 * dim), Window(2 * dim, 2 * heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.merge(self.one(x)))
