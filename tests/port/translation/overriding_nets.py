"""Models whose classes take the place of a part of what they derive from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Biased(nn.Module):
    """Its constructor calls methods that another class has in their place."""

    table: Tensor
    index: Tensor

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.dim, self.size = dim, size
        self.fc = nn.Linear(dim, dim)
        self.define_table()
        self.define_index()

    def define_table(self) -> None:
        self.table = nn.Parameter(torch.zeros(2 * self.size - 1, self.dim))

    def define_index(self) -> None:
        self.register_buffer("index", torch.arange(self.size).flip(0))

    def bias(self) -> Tensor:
        return self.table[self.index]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y + self.bias()


class Computed(Biased):
    """Makes its bias of a layer and of a table of other numbers."""

    coordinates: Tensor

    def __init__(self, dim: int, size: int) -> None:
        super().__init__(dim, size)
        self.layer = nn.Linear(1, dim)

    def define_table(self) -> None:
        self.register_buffer("coordinates", torch.linspace(-1, 1, 2 * self.size - 1)[:, None])

    def bias(self) -> Tensor:
        found: Tensor = self.layer(self.coordinates)
        return found[self.index]


class Halving(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y / 2


class Negating(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return -y


class Pooled(nn.Sequential):
    """A Sequential with a ``forward`` of its own."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x.mean(1)


class Overriding(nn.Module):
    """By default it has a class that no example constructs."""

    def __init__(
        self,
        dim: int = 4,
        size: int = 3,
        depth: int = 2,
        block: Callable[..., nn.Module] = Computed,
        last: Callable[..., nn.Module] = Halving,
    ) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[block(dim, size) for _ in range(depth)])
        self.last = last(dim)
        self.head = Pooled(dim, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.last(self.blocks(x)))
        return y
