"""Models with lists of equal layers, which become stacks, and with lists that cannot be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    """Of `GPT` and `LLaMA`."""

    vocab: int = 11
    width: int = 8
    heads: int = 2
    hidden: int = 12
    depth: int = 3
    dropout: float = 0.2


class CausalAttention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.drop(self.out(y.transpose(1, 2).reshape(n, t, c)))


class GPTBlock(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attn = CausalAttention(config)
        self.mlp = nn.Sequential(nn.Linear(config.width, 20), nn.GELU(), nn.Linear(20, config.width), nn.Dropout(0.3))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Dropout in every layer; its list is in a dict, as nanoGPT's is."""

    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        config = config or Config()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab, config.width),
                "h": nn.ModuleList([GPTBlock(config) for _ in range(config.depth)]),
                "ln_f": nn.LayerNorm(config.width),
            }
        )
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.transformer["wte"](ids)
        for block in self.transformer["h"]:  # type: ignore[attr-defined]
            x = block(x)
        return self.head(self.transformer["ln_f"](x))


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, dim=-1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


class RotaryAttention(nn.Module):
    """Grouped queries."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.size = config.heads, config.width // config.heads
        self.q = nn.Linear(config.width, config.width, bias=False)
        self.k = nn.Linear(config.width, self.size, bias=False)
        self.v = nn.Linear(config.width, self.size, bias=False)
        self.o = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        n, t, _ = x.shape
        q = rotated(self.q(x).view(n, t, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotated(self.k(x).view(n, t, 1, self.size).transpose(1, 2), cos, sin)
        v = self.v(x).view(n, t, 1, self.size).transpose(1, 2)
        k, v = (part.repeat_interleave(self.heads, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(n, t, -1))


class LLaMABlock(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(config.width), RMSNorm(config.width)
        self.attention = RotaryAttention(config)
        self.gate, self.up = (nn.Linear(config.width, config.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class LLaMA(nn.Module):
    """Its layers are given the tables of angles, which are no layer's."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        config = config or Config()
        self.embed = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList([LLaMABlock(config) for _ in range(config.depth)])
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        half = config.width // config.heads // 2
        angles = torch.outer(torch.arange(32).float(), 100.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, into: int, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(into, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.shortcut = None if into == width else nn.Conv2d(into, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class ResNet(nn.Module):
    """Running statistics; the first of each stage but one is another layer; Sequentials that are called."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 2)
        self.stage1 = self._stage(4, 4, depth)
        self.stage2 = self._stage(4, 6, depth)
        self.head = nn.Linear(6, 3)

    def _stage(self, into: int, width: int, depth: int) -> nn.Sequential:
        layers = [Residual(into, width)]
        for _ in range(1, depth):
            layers.append(Residual(width, width))
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stage2(self.stage1(self.stem(x))).mean((2, 3)))


class Ends(nn.Module):
    """The first and the last are of other shapes."""

    def __init__(self) -> None:
        super().__init__()
        inner = [nn.Linear(5, 5) for _ in range(3)]
        self.layers = nn.ModuleList([nn.Linear(4, 5), *inner, nn.Linear(5, 2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class DropPath(nn.Module):
    """Stochastic depth, as it is written by hand."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        kept = 1 - self.share
        return x * (torch.rand(x.shape[0], 1, 1, dtype=x.dtype) < kept) / kept


class DepthBlock(nn.Module):
    def __init__(self, width: int, share: float, index: int) -> None:
        super().__init__()
        self.fc, self.path, self.index = nn.Linear(width, width), DropPath(share), index
        self.drop = nn.Dropout(0.1 + share)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.path(self.drop(torch.tanh(self.fc(x)))) / (self.index + 1)


class StochasticDepth(nn.Module):
    """The layers differ by a share of samples, a rate of dropout, and an index."""

    def __init__(self, width: int = 6, depth: int = 4) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[DepthBlock(width, 0.4 * i / depth, i) for i in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


class WindowBlock(nn.Module):
    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.qkv, self.window = nn.Linear(width, 3 * width), window

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        places = torch.arange(x.shape[1])
        near = (places[:, None] - places[None, :]).abs() < self.window
        return x + F.scaled_dot_product_attention(q, k, v, attn_mask=near)


class Windows(nn.Module):
    """Windows that grow."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([WindowBlock(4, window) for window in (1, 2, 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Two(nn.Module):
    """A round makes two values of two."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        total = x * 0
        for layer in self.layers:
            z = torch.tanh(layer(x) + y)
            total = total + z
            x = z * 2
        return total + x


class EarlyPath(nn.Module):
    """Stochastic depth, as timm has it: where nothing drops, nothing is drawn."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if self.rate == 0.0 or not self.training:
            return x
        kept = 1 - self.rate
        return x * x.new_empty((x.shape[0], 1)).bernoulli_(kept) / kept


class PathBlock(nn.Module):
    def __init__(self, width: int, rate: float) -> None:
        super().__init__()
        self.fc, self.path = nn.Linear(width, width), EarlyPath(rate)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.path(torch.tanh(self.fc(x)))


class Paths(nn.Module):
    """The first layer drops nothing, and does another thing than the rest."""

    def __init__(self, width: int = 6, depth: int = 4) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([PathBlock(width, 0.2 * i) for i in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Stage(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([DepthBlock(width, 0.1, i) for i in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Stages(nn.Module):
    """Stacks in a stack, whose rounds read what is no round's."""

    def __init__(self, width: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage(width, depth) for _ in range(2)])

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x) * scale
        return x


# %% Lists that are no stack


class Collecting(nn.Module):
    """What each layer gives is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            found.append(x)
        return found


class Sharing(nn.Module):
    """Two layers have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.layers[2].weight = self.layers[0].weight

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Unlike(nn.Module):
    """No two layers are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 5), nn.Linear(5, 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class RootBlock(nn.Module):
    """A number from which JAX makes something only where it knows it."""

    def __init__(self, power: int) -> None:
        super().__init__()
        self.fc, self.power = nn.Linear(4, 4), power

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) + torch.ones(self.power, 4).sum(0)


class Roots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([RootBlock(power) for power in (1, 2, 3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def ids(seed: int = 0) -> Tensor:
    """Of `GPT` and `LLaMA`."""
    return torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(seed))


def floats(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


NETS: dict[str, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {
    "GPT": (GPT, (ids(),), ("transformer.h",)),
    "LLaMA": (LLaMA, (ids(),), ("layers",)),
    "ResNet": (ResNet, (floats(3, 2, 6, 5),), ("stage1", "stage2.1")),
    "Ends": (Ends, (floats(3, 4),), ("layers.1",)),
    "StochasticDepth": (StochasticDepth, (floats(3, 5, 6),), ("blocks",)),
    "Paths": (Paths, (floats(5, 6),), ("blocks.1",)),
    "Windows": (Windows, (floats(2, 5, 4),), ("layers",)),
    "Stages": (Stages, (floats(2, 3, 4), floats(4, seed=1)), ("stages.blocks", "stages")),
    "Two": (Two, (floats(3, 4), floats(3, 4, seed=1)), ("layers",)),
}
"""Name → the class, what it is called with, and Flax's paths of its stacks."""

NO_STACKS: dict[str, tuple[Any, str]] = {
    "Collecting": (Collecting, "an iteration has a side effect: found.append(x)"),
    "Sharing": (Sharing, "nothing is stacked: no list of equal layers"),
    "Unlike": (Unlike, "nothing is stacked: no list of equal layers"),
    "Roots": (Roots, "self.layers of Roots stays a list: its layers differ by a number that controls their code"),
}
"""Name → the class, called with ``floats(3, 4)``, and why its list is none."""
