"""Small language models whose axes a mesh of eight devices divides: as LLaMA and as GPT have them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, dim=-1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


class GroupedAttention(nn.Module):
    """Each key serves several queries."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        half = self.size // 2
        angles = torch.outer(torch.arange(t).to(x.dtype), 100.0 ** (-torch.arange(half).to(x.dtype) / half))
        cos, sin = angles.cos(), angles.sin()
        q = rotated(self.q(x).view(n, t, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotated(self.k(x).view(n, t, self.kv_heads, self.size).transpose(1, 2), cos, sin)
        v = self.v(x).view(n, t, self.kv_heads, self.size).transpose(1, 2)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(n, t, c))


class LLaMABlock(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = GroupedAttention(width, heads, kv_heads)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class LLaMA(nn.Module):
    def __init__(
        self, vocab: int = 40, width: int = 64, heads: int = 16, kv_heads: int = 8, hidden: int = 96, depth: int = 2
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList([LLaMABlock(width, heads, kv_heads, hidden) for _ in range(depth)])
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class FewKeys(LLaMA):
    """Two heads of keys and values, each for two of queries."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__(heads=4, kv_heads=2, depth=depth)


class GPTBlock(nn.Module):
    """One projection for queries, keys and values; biases, and a Sequential."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Its head is its table; positions have a table, too."""

    def __init__(self, vocab: int = 40, width: int = 32, heads: int = 8, depth: int = 2, longest: int = 16) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(longest, width)
        self.h = nn.ModuleList([GPTBlock(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class SharedKeysBlock(nn.Module):
    """One key and one value serve all queries."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm = nn.LayerNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, self.size, bias=False), nn.Linear(width, self.size, bias=False)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        y = self.norm(x)
        q = self.q(y).view(n, t, self.heads, self.size).transpose(1, 2)
        k, v = (part.view(n, t, 1, self.size).transpose(1, 2) for part in (self.k(y), self.v(y)))
        k, v = (part.expand(n, self.heads, t, self.size) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(x)))


class SharedKeys(nn.Module):
    """Multi-query attention, and a table with a padding row."""

    def __init__(self, vocab: int = 40, width: int = 32, heads: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.blocks = nn.ModuleList([SharedKeysBlock(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
