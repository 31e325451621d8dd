"""What makes the activations: one layer each, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

CHANNELS, WIDTH, LENGTH, SIDE = 6, 8, 5, 4


class Recurrent(nn.Module):
    """The outputs of a recurrent layer, without its last state."""

    def __init__(self, cls: type[nn.RNNBase], width: int) -> None:
        super().__init__()
        self.cell = cls(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


class Attention(nn.Module):
    """Attention in which queries, keys and values have their own layers: the softmax takes the keys' bias away."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class FusedAttention(nn.Module):
    """torch's own attention of a sequence to itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@dataclass(frozen=True)
class Producer:
    """A layer and what it takes.

    Attributes:
        name: for people.
        build: makes the layer.
        inputs: makes its input from a generator of random numbers.
        channels_first: whether it gives (N, C, H, W); otherwise (N, L, D).
        features: how many channels, or features, it gives.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Tensor]
    channels_first: bool
    features: int


def _image(generator: torch.Generator) -> Tensor:
    return torch.randn(3, 5, SIDE + 2, SIDE + 1, generator=generator) + 0.2


def _sequence(generator: torch.Generator) -> Tensor:
    return torch.randn(3, LENGTH, WIDTH, generator=generator) + 0.2


def _tokens(generator: torch.Generator) -> Tensor:
    return torch.randint(11, (3, LENGTH), generator=generator)


PRODUCERS = (
    Producer("conv", lambda: nn.Conv2d(5, CHANNELS, 3), _image, True, CHANNELS),
    Producer("1x1 conv", lambda: nn.Conv2d(5, CHANNELS, 1, bias=False), _image, True, CHANNELS),
    Producer("grouped conv", lambda: nn.Conv2d(5, 5 * CHANNELS, 3, padding=1, groups=5), _image, True, 5 * CHANNELS),
    Producer("transposed conv", lambda: nn.ConvTranspose2d(5, CHANNELS, 2), _image, True, CHANNELS),
    Producer("weight-normed conv", lambda: weight_norm(nn.Conv2d(5, CHANNELS, 3)), _image, True, CHANNELS),
    Producer("linear", lambda: nn.Linear(WIDTH, WIDTH), _sequence, False, WIDTH),
    Producer("weight-normed linear", lambda: weight_norm(nn.Linear(WIDTH, WIDTH)), _sequence, False, WIDTH),
    Producer("embedding", lambda: nn.Embedding(11, WIDTH), _tokens, False, WIDTH),
    Producer("GRU", lambda: Recurrent(nn.GRU, WIDTH), _sequence, False, WIDTH),
    Producer("LSTM", lambda: Recurrent(nn.LSTM, WIDTH), _sequence, False, WIDTH),
    Producer("attention", lambda: Attention(WIDTH, 2), _sequence, False, WIDTH),
    Producer("fused attention", lambda: FusedAttention(WIDTH, 2), _sequence, False, WIDTH),
)
