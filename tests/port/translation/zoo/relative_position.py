"""Biases by relative position: Swin's indexed table with shifted windows, T5's buckets, ALiBi's slopes."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
from torch import Tensor

from .example import Example, floats, given


def window_partition(x: Tensor, window_size: int) -> Tensor:
    """(B, H, W, C) -> (num_windows*B, window_size, window_size, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, C)


def window_reverse(windows: Tensor, window_size: int, H: int, W: int) -> Tensor:
    """(num_windows*B, window_size, window_size, C) -> (B, H, W, C)"""
    C = windows.shape[-1]
    x = windows.view(-1, H // window_size, W // window_size, window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, H, W, C)


class WindowAttention(nn.Module):
    def __init__(self, dim: int, window_size: tuple[int, int], num_heads: int) -> None:
        super().__init__()
        self.window_size = window_size
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5

        # define a parameter table of relative position bias
        self.relative_position_bias_table = nn.Parameter(
            torch.zeros((2 * window_size[0] - 1) * (2 * window_size[1] - 1), num_heads)
        )  # 2*Wh-1 * 2*Ww-1, nH

        # get pair-wise relative position index for each token inside the window
        coords = torch.stack(torch.meshgrid([torch.arange(w) for w in window_size], indexing="ij"))  # 2, Wh, Ww
        coords_flatten = torch.flatten(coords, 1)
        relative_coords = coords_flatten[:, :, None] - coords_flatten[:, None, :]  # 2, Wh*Ww, Wh*Ww
        relative_coords = relative_coords.permute(1, 2, 0).contiguous()
        relative_coords[:, :, 0] += window_size[0] - 1  # shift to start from 0
        relative_coords[:, :, 1] += window_size[1] - 1
        relative_coords[:, :, 0] *= 2 * window_size[1] - 1
        self.register_buffer("relative_position_index", relative_coords.sum(-1))

        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)

        area = self.window_size[0] * self.window_size[1]
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(area, area, -1)
        attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)

        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(-1)
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(x)


class SwinBlock(nn.Module):
    def __init__(
        self, dim: int, resolution: tuple[int, int], num_heads: int, window_size: int, shift_size: int
    ) -> None:
        super().__init__()
        self.resolution, self.window_size, self.shift_size = resolution, window_size, shift_size
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, (window_size, window_size), num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.register_buffer("attn_mask", self.make_mask() if shift_size > 0 else None)

    def make_mask(self) -> Tensor:
        H, W = self.resolution
        img_mask = torch.zeros((1, H, W, 1))
        cnt = 0
        slices = (
            slice(0, -self.window_size),
            slice(-self.window_size, -self.shift_size),
            slice(-self.shift_size, None),
        )
        for h in slices:
            for w in slices:
                img_mask[:, h, w, :] = cnt
                cnt += 1
        mask_windows = window_partition(img_mask, self.window_size).view(-1, self.window_size * self.window_size)
        attn_mask = mask_windows.unsqueeze(1) - mask_windows.unsqueeze(2)
        return attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(attn_mask == 0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        H, W = self.resolution
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"

        shortcut = x
        x = self.norm1(x).view(B, H, W, C)
        # cyclic shift
        if self.shift_size > 0:
            x = torch.roll(x, shifts=(-self.shift_size, -self.shift_size), dims=(1, 2))
        x_windows = window_partition(x, self.window_size).view(-1, self.window_size * self.window_size, C)
        attn_windows = self.attn(x_windows, mask=self.attn_mask)
        # merge windows
        attn_windows = attn_windows.view(-1, self.window_size, self.window_size, C)
        x = window_reverse(attn_windows, self.window_size, H, W)
        if self.shift_size > 0:
            x = torch.roll(x, shifts=(self.shift_size, self.shift_size), dims=(1, 2))
        x = shortcut + x.view(B, H * W, C)
        return x + self.mlp(self.norm2(x))


class BucketedBias(nn.Module):
    """T5: distances fall into buckets, near ones each into its own and far ones by logarithm."""

    def __init__(self, dim: int = 8, heads: int = 2, num_buckets: int = 10, max_distance: int = 24) -> None:
        super().__init__()
        self.heads, self.num_buckets, self.max_distance = heads, num_buckets, max_distance
        self.to_qk = nn.Linear(dim, 2 * dim, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, heads)

    def bucket(self, relative_position: Tensor) -> Tensor:
        n = self.num_buckets // 2
        ret = (relative_position > 0).to(torch.long) * n
        relative_position = torch.abs(relative_position)
        max_exact = n // 2
        is_small = relative_position < max_exact
        # clamped before the logarithm: of 0 there is none
        log_ratio = torch.log(relative_position.clamp(min=1).float() / max_exact) / math.log(
            self.max_distance / max_exact
        )
        if_large = max_exact + (log_ratio * (n - max_exact)).to(torch.long)
        if_large = torch.min(if_large, torch.full_like(if_large, n - 1))
        ret += torch.where(is_small, relative_position, if_large)
        return ret

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        positions = torch.arange(T, dtype=torch.long, device=x.device)
        values = self.relative_attention_bias(self.bucket(positions[None, :] - positions[:, None]))
        q, k = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.to_qk(x).chunk(2, -1))
        return torch.softmax(q @ k.mT + values.permute([2, 0, 1]).unsqueeze(0), dim=-1)


class Alibi(nn.Module):
    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)]))

    def forward(self, scores: Tensor) -> Tensor:
        i, j = scores.shape[-2:]
        distance = torch.arange(j)[None, :] - torch.arange(i)[:, None]
        causal = torch.ones(i, j, dtype=torch.bool).tril()
        scores = scores + self.slopes.view(-1, 1, 1) * distance
        return scores.masked_fill(causal.logical_not(), -1e9).softmax(dim=-1)


EXAMPLES = (
    Example("swin", lambda: SwinBlock(8, (4, 8), 2, 2, 0), lambda: given(floats(3, 32, 8)), "windows, indexed biases"),
    Example(
        "swin_shifted", lambda: SwinBlock(6, (6, 3), 3, 3, 1), lambda: given(floats(2, 18, 6)), "roll, mask buffer"
    ),
    Example("t5_buckets", BucketedBias, lambda: given(floats(2, 17, 8)), "buckets of distances made in forward"),
    Example("alibi", Alibi, lambda: given(floats(3, 4, 5, 5)), "slopes times distances, a causal mask made in forward"),
)
