"""Vision transformers: a class token, patches by convolution or by reshape, layer scale, stochastic depth by hand."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


def drop_path(x: Tensor, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True) -> Tensor:
    """Drop paths (Stochastic Depth) per sample, as timm has it."""
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)  # work with diff dim tensors, not just 2D ConvNets
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        return drop_path(x, self.drop_prob, self.training)


class LayerScale(nn.Module):
    def __init__(self, dim: int, init_values: float = 1e-5, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(self.gamma) if self.inplace else x * self.gamma


class PatchEmbed(nn.Module):
    def __init__(self, img_size: tuple[int, int], patch_size: tuple[int, int], in_chans: int, embed_dim: int) -> None:
        super().__init__()
        self.img_size = img_size
        self.num_patches = (img_size[0] // patch_size[0]) * (img_size[1] // patch_size[1])
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x: Tensor) -> Tensor:
        _B, _C, H, W = x.shape
        assert self.img_size == (H, W), f"Input image size ({H}*{W}) doesn't match model ({self.img_size})."
        return self.proj(x).flatten(2).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.ls1 = LayerScale(dim)
        self.drop_path = DropPath(drop_path) if drop_path > 0.0 else nn.Identity()
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.ls2 = LayerScale(dim, inplace=True)

    def attention(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.ls1(self.attention(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.fc2(F.gelu(self.fc1(self.norm2(x))))))


class VisionTransformer(nn.Module):
    def __init__(self, depth: int = 2, embed_dim: int = 12, num_classes: int = 5, global_pool: str = "token") -> None:
        super().__init__()
        self.global_pool = global_pool
        self.patch_embed = PatchEmbed((8, 12), (4, 3), 3, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if global_pool == "token" else None
        length = self.patch_embed.num_patches + (self.cls_token is not None)
        self.pos_embed = nn.Parameter(torch.randn(1, length, embed_dim) * 0.02)
        dpr = [x.item() for x in torch.linspace(0, 0.3, depth)]  # stochastic depth decay rule
        self.blocks = nn.Sequential(*[Block(embed_dim, 3, dpr[i]) for i in range(depth)])
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes) if num_classes > 0 else nn.Identity()

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        if self.cls_token is not None:
            x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = x + self.pos_embed
        x = self.blocks(x)
        return self.norm(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = x.mean(dim=1) if self.global_pool == "avg" else x[:, 0]
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        x = self.forward_features(x)
        return self.forward_head(x)


class PatchesByReshape(nn.Module):
    """Patches cut by view and permute; one sinusoidal table made in forward; keeps samples as the papers write it."""

    def __init__(self, patch: int = 3, channels: int = 2, dim: int = 10, keep: float = 0.7) -> None:
        super().__init__()
        self.patch, self.dim, self.keep = patch, dim, keep
        self.embed = nn.Linear(patch * patch * channels, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU())
        self.register_token = nn.Parameter(torch.randn(2, dim))

    def positions(self, n: int) -> Tensor:
        position = torch.arange(n, dtype=torch.float32).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, self.dim, 2).float() * (-4.0 / self.dim))
        table = torch.zeros(n, self.dim)
        table[:, 0::2] = torch.sin(position * frequency)
        table[:, 1::2] = torch.cos(position * frequency)
        return table

    def forward(self, images: Tensor) -> Tensor:
        n, c, h, w = images.shape
        p = self.patch
        patches = images.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        x = self.embed(patches)
        x += self.positions(x.shape[1])
        x = torch.cat([self.register_token.unsqueeze(0).repeat(n, 1, 1), x], 1)
        residual = self.mlp(x)
        if self.training:
            survives = (torch.rand(x.shape[0], 1, 1, device=x.device) < self.keep).to(x.dtype)
            residual = residual / self.keep * survives
        x = x + residual
        return torch.amax(x, dim=1)


EXAMPLES = (
    Example("vit", VisionTransformer, lambda: given(floats(2, 3, 8, 12)), "class token, layer scale, stochastic depth"),
    Example(
        "vit_mean",
        lambda: VisionTransformer(1, 9, 0, "avg"),
        lambda: given(floats(3, 3, 8, 12)),
        "no class token, Identity as head",
    ),
    Example(
        "vit_reshaped", PatchesByReshape, lambda: given(floats(3, 2, 6, 9)), "patches by reshape, rand < keep, sines"
    ),
)
