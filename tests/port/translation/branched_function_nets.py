"""Models whose ``forward`` calls one function several times, of which some calls take a branch and others do not."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def shifted_windows(
    x: Tensor, weight: Tensor, bias: Tensor, window: list[int], shift: list[int], scale: Tensor | None = None
) -> Tensor:
    """Mixes what is in a window, after a shift if there are several windows."""
    B, T, C = x.shape
    shift = shift.copy()
    # one window needs no shift
    if window[0] >= T:
        shift[0] = 0
    if sum(shift) > 0:
        x = torch.roll(x, shifts=-shift[0], dims=1)
    x = x.view(B, T // window[0], window[0], C)
    x = F.linear(x + x.mean(2, keepdim=True), weight, bias)
    x = x.view(B, T, C)
    if sum(shift) > 0:
        # what came round counts for less
        faded, count = x.new_ones(T), 3
        parts = ((0, -window[0]), (-window[0], -shift[0]), (-shift[0], None))
        for part in parts:
            faded[part[0] : part[1]] = count
            count -= 1
        x = torch.roll(x * faded[:, None], shifts=shift[0], dims=1)
    return x


class Windows(nn.Module):
    def __init__(self, dim: int, window: list[int], shift: list[int]) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return shifted_windows(x, self.proj.weight, self.proj.bias, self.window, shift=self.shift)


class Shifting(nn.Module):
    """Every other of its layers shifts."""

    def __init__(self, dim: int = 4, depth: int = 3, window: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *[Windows(dim, [window], [0 if number % 2 == 0 else window // 2]) for number in range(depth)]
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


def by_length(x: Tensor, weight: Tensor, most: int) -> Tensor:
    length, width = x.shape[1:]
    if length > most:
        x = x.tanh()
    elif width > most:
        x = x.exp()
    else:
        x = x.sin()
    return F.linear(x, weight)


class ByLength(nn.Module):
    """Each call takes another branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(5, 5, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = by_length(x, self.first.weight, 6)
        return x, by_length(x, self.second.weight, 7), by_length(x, self.third.weight, 4)


def by_numbers_within(x: Tensor, weight: Tensor, switch: nn.Module) -> Tensor:
    if switch.kind == "tanh":
        x = x.tanh()
    return F.linear(x, weight)


class Switch(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind


class DecidedOtherwise(nn.Module):
    """What decides is nothing that the function is given as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Switch("tanh"), Switch("none")
        self.fc = nn.Linear(5, 5, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return by_numbers_within(x, self.fc.weight, self.one) + by_numbers_within(x, self.fc.weight, self.other)
