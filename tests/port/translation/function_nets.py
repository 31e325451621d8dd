"""Models whose ``forward`` calls functions: of the file's own, and of a file beside it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import function_helpers
from .function_helpers import apply_rotary_pos_emb, rms_norm

# %% Functions that are kept


class Attention(nn.Module):
    """As LLaMA has it."""

    inv_freq: Tensor

    def __init__(self, dim: int = 12, heads: int = 3, eps: float = 1e-5) -> None:
        super().__init__()
        self.heads, self.head_dim, self.eps = heads, dim // heads, eps
        self.qkv = nn.Linear(dim, 3 * dim)
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("inv_freq", 100.0 ** -(torch.arange(0, self.head_dim, 2) / self.head_dim))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        x = rms_norm(x, self.weight, self.eps)
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        freqs = torch.outer(torch.arange(T).to(x.dtype), self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)[None]
        q, k = apply_rotary_pos_emb(q, k, emb.cos(), emb.sin())
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(B, T, C)


class Llama(nn.Module):
    def __init__(self, dim: int = 12, heads: int = 3, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Attention(dim, heads) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return rms_norm(x, self.layers[0].weight)


class Windowed(nn.Module):
    def __init__(self, dim: int = 5, window_size: int = 2) -> None:
        super().__init__()
        self.window_size = window_size
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(function_helpers.window_partition(x, self.window_size)).softmax(1)


class TwoWindows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Windowed(window_size=2), Windowed(window_size=3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(x), self.other(x)


def scaled(x: Tensor, *, scale: float = 2.0, shift: float = 0.5) -> Tensor:
    """Scales "and" shifts: a\\b."""
    return torch.tanh(x * scale + shift)


def between(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    y = x - low
    return y * torch.sigmoid(high - x)


class Defaults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = scaled(x) + scaled(self.fc(x), scale=3.0)
        return between(y) + between(x, high=2.0) * between(x, -0.5, 0.25)


def mean_and_std(x: Tensor) -> tuple[Tensor, Tensor]:
    """Statistics of an image (N, C, H, W)."""
    return x.mean((2, 3), keepdim=True), (x.var((2, 3), keepdim=True) + 1e-5).sqrt()


class Styled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, content: Tensor, style: Tensor) -> Tensor:
        content = self.conv(content)
        style_mean, style_std = mean_and_std(style)
        content_mean, content_std = mean_and_std(content)
        return (content - content_mean) / content_std * style_std + style_mean


def cell(x: Tensor, h: Tensor, w: Tensor) -> Tensor:
    """One step."""
    return torch.tanh(x + h @ w)


class Recurrent(nn.Module):
    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(dim, dim) / 5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])
        out = []
        for t in range(x.shape[1]):
            h = cell(x[:, t], h, self.w)
            out.append(h)
        return torch.stack(out, 1)


def cropped(x: Tensor, size: int) -> tuple[Tensor, tuple[int, int], None]:
    height = x.shape[1] - size
    return x[:, :height] * 2, (height, size), None


class Cropped(nn.Module):
    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        y, _, _ = cropped(x, self.size)
        return y.sum(1)


def lax(x: Tensor, jnp: Tensor) -> Tensor:
    return x * jnp - 1


def Named(x: Tensor) -> Tensor:
    return torch.sin(x) * x


class NamedLikeOthers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.load = load

    def forward(self, x: Tensor) -> Tensor:
        return lax(load(x), Named(self.fc(x)))


def load(x: Tensor) -> Tensor:
    return torch.exp(-x) + x


# %% Functions that are not


def given_module(layer: nn.Module, x: Tensor) -> Tensor:
    y: Tensor = layer(x)
    return y * 2 + 1


def dropped(x: Tensor, p: float, training: bool) -> Tensor:
    return F.dropout(x, p, training) * 2


def by_mode(x: Tensor, training: bool) -> Tensor:
    return torch.sin(x) * x if training else torch.cos(x) * x


def added_to(x: Tensor) -> None:
    x.add_(1)


def same(x: Tensor) -> Tensor:
    return x


def other_axis(x: Tensor, mask: Tensor | None) -> Tensor:
    return x.exp() if mask is None else x.exp() * mask


class Dissolved(nn.Module):
    """Calls one function twice, or such as needs what it is not given; ``kind`` says which."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.fc = kind, nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        match self.kind:
            case "given_module":
                return given_module(self.fc, x)
            case "dropped":
                return dropped(y, 0.25, self.training)
            case "by_mode":
                return by_mode(y, self.training)
            case "added_to":
                z = y * 2
                added_to(z)
                return y * z
            case "same":
                return same(y) * 2
        return other_axis(y, None) + other_axis(y, x)


def _jittered(x: Tensor, shift: float | None = None) -> Tensor:
    """Draws in training alone, and computes in both modes."""
    if shift is not None:
        x = x + torch.empty(x.shape[-1]).uniform_(-shift, shift)
    return torch.tanh(x * 2 - 1) * x


class Jittered(nn.Module):
    """Calls a function that draws, from several places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.shift = nn.Linear(5, 7), nn.Linear(7, 3), 0.7

    def forward(self, x: Tensor) -> Tensor:
        shift = self.shift if self.training else None
        return _jittered(self.second(_jittered(self.first(x), shift)), shift)
