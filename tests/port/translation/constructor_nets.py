"""Small models as people write them, whose constructors take their sizes in many ways."""

from __future__ import annotations

import math
from argparse import Namespace
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class MlpConfig:
    """Held by another configuration."""

    width: int
    ratio: float = 2.0


@dataclass
class Config:
    """Some of its fields have no default."""

    dim: int
    heads: int
    n_layer: int
    mlp: MlpConfig
    block: int = 8
    dropout: float = 0.0
    name: str = "gpt"


class Attention(nn.Module):
    """Causal, with a buffer for the mask."""

    mask: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        assert config.dim % config.heads == 0
        self.heads = config.heads
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.proj = nn.Linear(config.dim, config.dim)
        mask = torch.tril(torch.ones(config.block, config.block))
        self.register_buffer("mask", mask.view(1, 1, config.block, config.block))

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, n, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, n, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, n, self.heads, c // self.heads).transpose(1, 2)
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.mask[:, :, :n, :n] == 0, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).contiguous().view(b, n, c))


class GptBlock(nn.Module):
    """Attention and an MLP."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.dim)
        self.attn = Attention(config)
        hidden = int(config.mlp.width * config.mlp.ratio)
        self.mlp = nn.Sequential(nn.Linear(config.dim, hidden), nn.GELU(), nn.Linear(hidden, config.dim))
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm(x))
        return x + self.drop(self.mlp(x))


class Gpt(nn.Module):
    """Of a configuration within which there is another one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(11, config.dim)
        self.pos = nn.Parameter(torch.zeros(1, config.block, config.dim))
        self.blocks = nn.ModuleList([GptBlock(config) for _ in range(config.n_layer)])
        self.head = nn.Linear(config.dim, 11, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.pos[:, : tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class VitBlock(nn.Module):
    """Its sizes follow from others."""

    def __init__(self, dim: int, heads: int, mlp_ratio: float = 2.0) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.fc1 = nn.Linear(dim, int(dim * mlp_ratio))
        self.fc2 = nn.Linear(int(dim * mlp_ratio), dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
        x = x + (weights @ v).transpose(1, 2).reshape(b, n, c)
        return x + self.fc2(torch.relu(self.fc1(x)))


class Vit(nn.Module):
    """Arguments with defaults, and some that are given by name alone."""

    def __init__(
        self, dim: int, depth: int = 2, *, heads: int = 2, mlp_ratio: float = 2.0, tokens: int = 5, p: float = 0.0
    ) -> None:
        super().__init__()
        self.pos = nn.Parameter(torch.zeros(1, tokens, dim))
        self.drop = nn.Dropout(p)
        self.blocks = nn.Sequential(*[VitBlock(dim, heads, mlp_ratio) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.blocks(self.drop(x + self.pos))).mean(dim=1)


class ConvNorm(nn.Sequential):
    """Derives from Sequential."""

    def __init__(self, inside: int, outside: int, kernel: int = 3) -> None:
        super().__init__(
            nn.Conv2d(inside, outside, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
        )


class Stages(nn.Module):
    """How deep it is at each width, in a tuple."""

    def __init__(self, width: int, depths: tuple[int, ...] = (2, 3), classes: int = 4) -> None:
        super().__init__()
        self.stem = ConvNorm(3, width, 1)
        self.stages = nn.ModuleList()
        for number, depth in enumerate(depths):
            inside = width * 2 ** max(number - 1, 0)
            outside = width * 2**number
            layers = [ConvNorm(inside if place == 0 else outside, outside) for place in range(depth)]
            self.stages.append(nn.Sequential(*layers))
        self.head = nn.Linear(width * 2 ** (len(depths) - 1), classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean(dim=(2, 3)))


class FromNamespace(nn.Module):
    """Takes what argparse gives."""

    def __init__(self, args: Namespace) -> None:
        super().__init__()
        self.args = args
        self.up = nn.Linear(args.dim, args.hidden)
        self.down = nn.Linear(args.hidden, args.dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.args.scale * self.down(torch.tanh(self.up(x)))


class Nested(nn.Module):
    """Reads a configuration within another one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.ratio = config, config.mlp.ratio
        self.up = nn.Linear(config.dim, config.mlp.width)
        self.down = nn.Linear(config.mlp.width, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ratio * self.down(torch.tanh(self.up(x)))


class Tuples(nn.Module):
    """A tuple of lengths."""

    def __init__(self, hidden: tuple[int, int] = (5, 6)) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, hidden[0]), nn.Tanh(), nn.Linear(hidden[0], hidden[1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Base(nn.Module):
    """Another class derives from it."""

    def __init__(self, dim: int, rank: int = 3) -> None:
        super().__init__()
        self.dim = dim
        self.down = nn.Linear(dim, rank)
        self.up = nn.Linear(rank, dim)


class Derived(Base):
    """Gives its base class what that takes."""

    def __init__(self, dim: int, classes: int = 4) -> None:
        super().__init__(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.up(self.down(x)) / self.dim)


class Scaled(nn.Module):
    """Each of its instances has a number of its own."""

    def __init__(self, dim: int, scale: float) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * torch.tanh(self.fc(x))


class TwoScaled(nn.Module):
    """Two instances of a class, which differ in one number."""

    def __init__(self, dim: int, scale: float = 0.5) -> None:
        super().__init__()
        self.one, self.other = Scaled(dim, scale), Scaled(dim, 3.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.one(x))


class Flagged(nn.Module):
    """A flag says what modules it has, another one whether they have a bias."""

    def __init__(self, dim: int, normed: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, 2 * dim, bias=bias)
        self.norm = nn.LayerNorm(2 * dim) if normed else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.fc(x))


@dataclass
class WeightNormConfig:
    """Of a layer within another."""

    dim: int
    kernel: int = 3


class Masked(nn.Module):
    """A parameter of an older way to make one, and a convolution whose weight is computed."""

    def __init__(self, config: WeightNormConfig) -> None:
        super().__init__()
        self.mask = nn.Parameter(torch.Tensor(config.dim).uniform_())
        conv = nn.Conv1d(config.dim, 2 * config.dim, config.kernel, padding=config.kernel // 2)
        self.conv = nn.utils.parametrizations.weight_norm(conv)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv((x + self.mask).transpose(1, 2))


@dataclass
class RotaryConfig:
    """One of its fields is a dict."""

    dim: int
    rope: dict[str, float | str]


class Rotary(nn.Module):
    """Its frequencies are worked out of a count."""

    frequencies: Tensor

    def __init__(self, config: RotaryConfig) -> None:
        super().__init__()
        base, dim = config.rope["theta"], config.dim
        self.register_buffer("frequencies", 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)))
        self.out = nn.Linear(dim // 2, dim)

    def forward(self, position: Tensor) -> Tensor:
        return self.out(torch.sin(position[..., None] * self.frequencies))


class Tempered(nn.Module):
    """Its buffer is one number, made of an argument; it is filled with it once more."""

    scale: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.out, self.root = nn.Linear(dim, 3), dim**0.5
        self.register_buffer("scale", torch.tensor(self.root))
        nn.init.constant_(self.scale, self.root)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x * self.scale)


class TemperedBuffer(nn.Module):
    """Its buffers are assigned: a number of two arguments, and a whole one."""

    def __init__(self, dim: int, scale: float = 0.5) -> None:
        super().__init__()
        self.out = nn.Linear(dim, 3)
        self.scale = nn.Buffer(torch.tensor(scale * dim), persistent=False)
        self.count = nn.Buffer(torch.tensor(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x * self.scale + self.count)


class TemperedEmbedding(nn.Embedding):
    """One whose constructor is not kept, as it is a layer of torch's."""

    def __init__(self, dim: int, scale: float) -> None:
        super().__init__(11, dim)
        self.register_buffer("scale", torch.tensor(scale), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


class TemperedTokens(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.tokens = TemperedEmbedding(dim, dim**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.tokens(x)


@dataclass
class DrawnConfig:
    """With the spread of the weights that a model draws."""

    dim: int
    spread: float = 0.5


class DrawnBlock(nn.Module):
    """Drawn by the model around it."""

    def __init__(self, config: DrawnConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(config.dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x))


@dataclass
class PatchConfig:
    """Of images."""

    dim: int
    size: int
    patch: int = 4


class Drawn(nn.Module):
    """It draws its layers, and those within."""

    def __init__(self, config: DrawnConfig) -> None:
        super().__init__()
        self.config = config
        self.inside = DrawnBlock(config)
        self.out = nn.Linear(config.dim, 2)
        self.apply(self._draw)

    def _draw(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=self.config.spread * self.config.dim**-0.5)
            nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.inside(x))


class Patches(nn.Module):
    """It knows how many there are."""

    def __init__(self, config: PatchConfig) -> None:
        super().__init__()
        self.number = (config.size // config.patch) ** 2
        self.conv = nn.Conv2d(3, config.dim, config.patch, config.patch)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).flatten(2).transpose(1, 2)


class Positions(nn.Module):
    """It has as many positions as a module within has patches."""

    def __init__(self, config: PatchConfig) -> None:
        super().__init__()
        self.patches = Patches(config)
        self.positions = nn.Parameter(torch.zeros(1, self.patches.number, config.dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.patches(x) + self.positions


@dataclass
class HeadsConfig:
    """Of stages with heads of their own."""

    dim: int = 12
    heads: tuple[int, ...] = (2, 3)


class HeadsStage(nn.Module):
    """It has its number of heads beside the configuration that it is from."""

    def __init__(self, config: HeadsConfig, heads: int) -> None:
        super().__init__()
        self.width = config.dim // heads
        self.fc = nn.Linear(config.dim, self.width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc(x).repeat_interleave(x.shape[-1] // self.width, -1)


class HeadsStages(nn.Module):
    def __init__(self, config: HeadsConfig) -> None:
        super().__init__()
        self.stages = nn.ModuleList(HeadsStage(config, heads) for heads in config.heads)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)
        return x
