"""Models of images, each written twice in the ways in which people write them on either side."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import linen, nnx
from torch import nn

# %% A residual network: torchvision's way, and a compact Linen one with automatic names


class BasicBlock(nn.Module):
    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x: Any) -> Any:
        out = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 12), depth: int = 2, classes: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        before = widths[0]
        for number, width in enumerate(widths, 1):
            blocks = [BasicBlock(before if place == 0 else width, width, 2 if place == 0 and number > 1 else 1)
                      for place in range(depth)]  # fmt: skip
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
            before = width
        self.fc = nn.Linear(before, classes)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.bn1(self.conv1(x)))
        for name, stage in self.named_children():
            x = stage(x) if name.startswith("layer") else x
        return self.fc(x.mean((2, 3)))


class LinenResNetBlock(linen.Module):
    filters: int
    conv: Any
    norm: Any
    strides: tuple[int, int] = (1, 1)

    @linen.compact
    def __call__(self, x: Any) -> Any:
        residual = x
        y = self.conv(self.filters, (3, 3), self.strides, padding=((1, 1), (1, 1)))(x)
        y = linen.relu(self.norm()(y))
        y = self.conv(self.filters, (3, 3), padding=((1, 1), (1, 1)))(y)
        y = self.norm()(y)
        if residual.shape != y.shape:
            residual = self.conv(self.filters, (1, 1), self.strides, name="conv_proj")(residual)
            residual = self.norm(name="norm_proj")(residual)
        return linen.relu(residual + y)


class LinenResNet(linen.Module):
    stage_sizes: tuple[int, ...] = (2, 2)
    filters: tuple[int, ...] = (8, 12)
    classes: int = 5

    @linen.compact
    def __call__(self, x: Any, train: bool = True) -> Any:
        conv = partial(linen.Conv, use_bias=False)
        norm = partial(linen.BatchNorm, use_running_average=not train, momentum=0.9, epsilon=1e-5)
        x = conv(self.filters[0], (3, 3), padding=((1, 1), (1, 1)), name="conv_init")(x)
        x = linen.relu(norm(name="bn_init")(x))
        for stage, size in enumerate(self.stage_sizes):
            for place in range(size):
                strides = (2, 2) if stage > 0 and place == 0 else (1, 1)
                x = LinenResNetBlock(self.filters[stage], conv, norm, strides)(x)
        return linen.Dense(self.classes)(jnp.mean(x, axis=(1, 2)))


# %% A vision transformer: timm's way with fused qkv, and nnx with attention's own kernels


class TimmAttention(nn.Module):
    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Any) -> Any:
        batch, length, dim = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, self.num_heads, dim // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, dim))


class TimmBlock(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = TimmAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(dim, 2 * dim), "fc2": nn.Linear(2 * dim, dim)})

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class TimmViT(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2, depth: int = 3, classes: int = 5) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, dim) * 0.02)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, 4, 4)})
        self.blocks = nn.Sequential(*(TimmBlock(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, x: Any) -> Any:
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class NnxBlock(nnx.Module):
    def __init__(self, dim: int, heads: int, rngs: nnx.Rngs) -> None:
        self.ln_1 = nnx.LayerNorm(dim, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, dim, decode=False, deterministic=True, rngs=rngs)
        self.ln_2 = nnx.LayerNorm(dim, rngs=rngs)
        self.up = nnx.Linear(dim, 2 * dim, rngs=rngs)
        self.down = nnx.Linear(2 * dim, dim, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.ln_1(x))
        return x + self.down(jax.nn.gelu(self.up(self.ln_2(x)), approximate=False))


class NnxViT(nnx.Module):
    def __init__(self, dim: int = 16, heads: int = 2, depth: int = 3, classes: int = 5, *, rngs: nnx.Rngs) -> None:
        self.patches = nnx.Conv(3, dim, (4, 4), (4, 4), padding="VALID", rngs=rngs)
        self.class_embedding = nnx.Param(jnp.zeros((1, 1, dim)))
        self.position_embedding = nnx.Param(jnp.zeros((1, 5, dim)))
        self.encoder = nnx.List([NnxBlock(dim, heads, rngs) for _ in range(depth)])
        self.final_norm = nnx.LayerNorm(dim, rngs=rngs)
        self.classifier = nnx.Linear(dim, classes, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.patches(x)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        first = jnp.broadcast_to(self.class_embedding[...], (x.shape[0], 1, x.shape[-1]))
        x = jnp.concatenate([first, x], axis=1) + self.position_embedding[...]
        for block in self.encoder:
            x = block(x)
        return self.classifier(self.final_norm(x)[:, 0])


# %% The same transformer in Linen, its layers in one scan


class LinenScannedBlock(linen.Module):
    heads: int

    @linen.compact
    def __call__(self, x: Any, _: Any) -> Any:
        dim = x.shape[-1]
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=self.heads)(y, y)
        y = linen.LayerNorm()(x)
        y = linen.gelu(linen.Dense(2 * dim)(y), approximate=False)
        return x + linen.Dense(dim)(y), None


class LinenScannedViT(linen.Module):
    dim: int = 16
    heads: int = 2
    depth: int = 3
    classes: int = 5

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Conv(self.dim, (4, 4), (4, 4), padding="VALID", name="embedding")(x)
        x = x.reshape(x.shape[0], -1, self.dim)
        cls = self.param("cls", linen.initializers.zeros, (1, 1, self.dim))
        x = jnp.concatenate([jnp.tile(cls, (x.shape[0], 1, 1)), x], axis=1)
        x = x + self.param("pos_embedding", linen.initializers.normal(0.02), (1, x.shape[1], self.dim))
        layers = linen.scan(
            LinenScannedBlock, variable_axes={"params": 0}, split_rngs={"params": True}, length=self.depth
        )
        x, _ = layers(self.heads, name="encoderblock")(x, None)
        return linen.Dense(self.classes, name="head")(linen.LayerNorm(name="encoder_norm")(x)[:, 0])


# %% A convolutional network that flattens: no layer shows the pooling before it


class FlattenNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 7, (3, 2)), nn.ReLU()
        )
        self.classifier = nn.Sequential(nn.Linear(7 * 2 * 4, 11), nn.ReLU(), nn.Linear(11, 11), nn.Linear(11, 3))

    def forward(self, x: Any) -> Any:
        return self.classifier(torch.flatten(self.features(x), 1))


class NnxFlattenNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv_a = nnx.Conv(2, 6, (3, 3), rngs=rngs)
        self.conv_b = nnx.Conv(6, 7, (3, 2), padding="VALID", rngs=rngs)
        self.dense_c = nnx.Linear(7 * 2 * 4, 11, rngs=rngs)
        self.dense_d = nnx.Linear(11, 11, rngs=rngs)
        self.dense_e = nnx.Linear(11, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.conv_a(x)), (2, 2), (2, 2))
        x = nnx.relu(self.conv_b(x)).reshape(x.shape[0], -1)
        return self.dense_e(self.dense_d(nnx.relu(self.dense_c(x))))


# %% A U-Net: torch's by names, nnx's by lists


def _double(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.ReLU()),
        *(nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(2, after), nn.ReLU()),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inc = _double(1, 4)
        self.down1, self.down2 = _double(4, 8), _double(8, 8)
        self.up1, self.up2 = nn.ConvTranspose2d(8, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)
        self.conv1, self.conv2 = _double(16, 8), _double(8, 4)
        self.outc = nn.Conv2d(4, 3, 1)

    def forward(self, x: Any) -> Any:
        first = self.inc(x)
        second = self.down1(nn.functional.max_pool2d(first, 2))
        x = self.down2(nn.functional.max_pool2d(second, 2))
        x = self.conv1(torch.cat([second, self.up1(x)], 1))
        return self.outc(self.conv2(torch.cat([first, self.up2(x)], 1)))


class NnxDouble(nnx.Module):
    def __init__(self, before: int, after: int, rngs: nnx.Rngs) -> None:
        self.convs = nnx.List([nnx.Conv(before, after, (3, 3), rngs=rngs), nnx.Conv(after, after, (3, 3), rngs=rngs)])
        self.norms = nnx.List([nnx.GroupNorm(after, 2, epsilon=1e-5, rngs=rngs) for _ in range(2)])

    def __call__(self, x: Any) -> Any:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = nnx.relu(norm(conv(x)))
        return x


class NnxUNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        def up(before: int, after: int) -> nnx.ConvTranspose:
            return nnx.ConvTranspose(before, after, (2, 2), (2, 2), padding="VALID", transpose_kernel=True, rngs=rngs)

        self.contracting = nnx.List([NnxDouble(1, 4, rngs), NnxDouble(4, 8, rngs), NnxDouble(8, 8, rngs)])
        self.upsampling = nnx.List([up(8, 8), up(8, 4)])
        self.expanding = nnx.List([NnxDouble(16, 8, rngs), NnxDouble(8, 4, rngs)])
        self.last = nnx.Conv(4, 3, (1, 1), rngs=rngs)

    def __call__(self, x: Any) -> Any:
        kept = []
        for place, stage in enumerate(self.contracting):
            x = stage(nnx.max_pool(x, (2, 2), (2, 2)) if place else x)
            kept.append(x)
        kept.pop()
        for up, stage in zip(self.upsampling, self.expanding, strict=True):
            x = stage(jnp.concatenate([kept.pop(), up(x)], axis=-1))
        return self.last(x)


# %% An MLP-Mixer whose patches are a convolution in torch and a linear layer over flattened patches in Flax


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp_tokens = nn.Sequential(nn.Linear(tokens, 6), nn.GELU(), nn.Linear(6, tokens))
        self.mlp_channels = nn.Sequential(nn.Linear(dim, 12), nn.GELU(), nn.Linear(12, dim))

    def forward(self, x: Any) -> Any:
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.blocks = nn.Sequential(MixerBlock(9, 8), MixerBlock(9, 8))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.stem(x).flatten(2).transpose(1, 2))).mean(1))


class LinenMlpBlock(linen.Module):
    width: int

    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(x.shape[-1])(linen.gelu(linen.Dense(self.width)(x), approximate=False))


class LinenMixer(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        n, h, w, c = x.shape
        x = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, -1, 4 * c)
        x = linen.Dense(8, name="patches")(x)
        for _ in range(2):
            y = linen.LayerNorm(epsilon=1e-5)(x)
            x = x + LinenMlpBlock(6)(y.swapaxes(1, 2)).swapaxes(1, 2)
            x = x + LinenMlpBlock(12)(linen.LayerNorm(epsilon=1e-5)(x))
        return linen.Dense(4)(linen.LayerNorm(epsilon=1e-5)(x).mean(1))
