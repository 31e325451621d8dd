"""ResNet-50 and ViT-B/16 as a person writes them in plain nnx: what a translated one is timed against."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn import BatchNorm

Norm = partial(BatchNorm, eps=1e-5, momentum=0.1)


class Bottleneck(nnx.Module):
    """1×1, 3×3, 1×1, around which the input goes."""

    def __init__(self, inputs: int, width: int, stride: int, *, rngs: nnx.Rngs) -> None:
        conv = partial(nnx.Conv, use_bias=False, rngs=rngs)
        self.conv1, self.bn1 = conv(inputs, width, (1, 1)), Norm(width, rngs=rngs)
        self.conv2 = conv(width, width, (3, 3), strides=stride, padding=1)
        self.bn2 = Norm(width, rngs=rngs)
        self.conv3, self.bn3 = conv(width, 4 * width, (1, 1)), Norm(4 * width, rngs=rngs)
        if stride == 1 and inputs == 4 * width:
            self.shortcut = nnx.Sequential()
        else:
            shortcut = conv(inputs, 4 * width, (1, 1), strides=stride, padding=0)
            self.shortcut = nnx.Sequential(shortcut, Norm(4 * width, rngs=rngs))

    def __call__(self, x: jax.Array) -> jax.Array:
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = nnx.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return nnx.relu(y + self.shortcut(x))


class ResNet50(nnx.Module):
    """Images (N, H, W, 3) to 1,000 classes."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(3, 64, (7, 7), strides=2, padding=3, use_bias=False, rngs=rngs)
        self.bn1 = Norm(64, rngs=rngs)
        blocks, inputs = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                blocks.append(Bottleneck(inputs, width, stride if number == 0 else 1, rngs=rngs))
                inputs = 4 * width
        self.blocks = nnx.List(blocks)
        self.fc = nnx.Linear(2048, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.bn1(self.conv1(x)))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((1, 2)))


class EncoderBlock(nnx.Module):
    """Attention and two linear layers, each behind a layer norm."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.ln_1, self.ln_2 = (
            nnx.LayerNorm(768, epsilon=1e-6, use_fast_variance=False, rngs=rngs),
            nnx.LayerNorm(768, epsilon=1e-6, use_fast_variance=False, rngs=rngs),
        )
        self.qkv, self.out = nnx.Linear(768, 3 * 768, rngs=rngs), nnx.Linear(768, 768, rngs=rngs)
        self.fc1, self.fc2 = nnx.Linear(768, 3072, rngs=rngs), nnx.Linear(3072, 768, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        n, length, _ = x.shape
        q, k, v = jnp.split(self.qkv(self.ln_1(x)).reshape(n, length, 3 * 12, 64), 3, axis=2)
        attended = jax.nn.dot_product_attention(q, k, v).reshape(n, length, 768)
        x = x + self.out(attended)
        return x + self.fc2(nnx.gelu(self.fc1(self.ln_2(x)), approximate=False))


class ViTB16(nnx.Module):
    """Images (N, 224, 224, 3) to 1,000 classes."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.patches = nnx.Conv(3, 768, (16, 16), strides=16, padding=0, rngs=rngs)
        self.class_token = nnx.Param(jnp.zeros((1, 1, 768)))
        self.positions = nnx.Param(0.02 * rngs.params.normal((1, 197, 768)))
        self.blocks = nnx.List([EncoderBlock(rngs=rngs) for _ in range(12)])
        self.ln = nnx.LayerNorm(768, epsilon=1e-6, use_fast_variance=False, rngs=rngs)
        self.head = nnx.Linear(768, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patches(x)
        x = x.reshape(x.shape[0], -1, 768)
        token = jnp.broadcast_to(self.class_token[...], (x.shape[0], 1, 768))
        x = jnp.concatenate([token, x], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)[:, 0])
