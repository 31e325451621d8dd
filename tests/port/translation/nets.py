"""Small modules that several tests translate, each of them once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import port
from port.translation import Translation


class Small(nn.Module):
    """A convolutional network; what is flattened is no square, so that its axes can be told apart."""

    def __init__(self, channels: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(channels * 3 * 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = F.max_pool2d(x, 2)
        x = self.drop(torch.flatten(x, 1))
        return self.head(x)


class Attention(nn.Module):
    """A block of attention, its heads taken apart by hand."""

    def __init__(self, dim: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return x + self.out(y)


class Block(nn.Module):
    """One of several in a model, of another width and with another constant each."""

    def __init__(self, dim: int, hidden: int, scale: float = 1.0) -> None:
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.down(torch.tanh(self.up(x)))


class Blocks(nn.Module):
    """Two instances of one class; tied weights; a buffer that no state dict holds, and one that is written to."""

    mask: Tensor
    calls: Tensor

    def __init__(self, words: int = 7, dim: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.blocks = nn.ModuleList([Block(dim, 6, 0.5), Block(dim, 9)])
        self.gain = nn.Parameter(torch.randn(dim, 3))
        self.decode = nn.Linear(dim, words, bias=False)
        self.decode.weight = self.embed.weight
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 2.0]), persistent=False)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        if self.training:
            self.calls += 1
        return {"logits": self.decode(x), "gained": (x @ self.gain) * self.mask}


def image(batch: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(batch, 2, 6, 4, generator=torch.Generator().manual_seed(seed))


def sequence(batch: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(batch, 5, 8, generator=torch.Generator().manual_seed(seed))


def tokens(batch: int = 2, seed: int = 0) -> Tensor:
    return torch.randint(7, (batch, 4), generator=torch.Generator().manual_seed(seed))


INPUTS: dict[type[nn.Module], Callable[..., Tensor]] = {Small: image, Attention: sequence, Blocks: tokens}


@cache
def translated(cls: type[nn.Module]) -> tuple[Any, Translation]:
    """A module of that class, no number of it trivial, and its translation, unproved. Both are to be left as they are.

    What is cut out of the source stands as if it were the original's: a test that changes something changes a copy.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = cls()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim == 1:
                # Biases and means around zero, so that an activation sees numbers of both signs.
                drawn = torch.rand(parameter.shape, generator=generator)
                parameter.copy_(drawn - 0.5 if name.endswith("bias") else 0.5 + drawn)
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + (0.5 if name.endswith("var") else -0.5))
    return module, port.translate(module, INPUTS[cls](), check=False, construct=cls)
