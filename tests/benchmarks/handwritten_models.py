"""Models as a person writes them in plain nnx: what a translated one is timed against."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

Norm = partial(nnx.BatchNorm, momentum=0.9, epsilon=1e-5)
LayerNorm = partial(nnx.LayerNorm, epsilon=1e-6, use_fast_variance=False)


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
        self.ln_1, self.ln_2 = LayerNorm(768, rngs=rngs), LayerNorm(768, rngs=rngs)
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
        self.ln = LayerNorm(768, rngs=rngs)
        self.head = nnx.Linear(768, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patches(x)
        x = x.reshape(x.shape[0], -1, 768)
        token = jnp.broadcast_to(self.class_token[...], (x.shape[0], 1, 768))
        x = jnp.concatenate([token, x], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)[:, 0])


class ConvNeXtBlock(nnx.Module):
    """A depthwise convolution and two linear layers, scaled, around which the input goes."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(width, width, (7, 7), padding=3, feature_group_count=width, rngs=rngs)
        self.norm = LayerNorm(width, rngs=rngs)
        self.fc1, self.fc2 = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)
        self.scale = nnx.Param(jnp.full(width, 1e-6))

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.fc2(nnx.gelu(self.fc1(self.norm(self.conv(x))), approximate=False))
        return x + self.scale[...] * y


class ConvNeXtT(nnx.Module):
    """Images (N, H, W, 3) to 1,000 classes."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        layers: list[Any] = [nnx.Conv(3, 96, (4, 4), strides=4, padding=0, rngs=rngs), LayerNorm(96, rngs=rngs)]
        for width, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
            if width > 96:
                layers.append(LayerNorm(width // 2, rngs=rngs))
                layers.append(nnx.Conv(width // 2, width, (2, 2), strides=2, padding=0, rngs=rngs))
            layers += [ConvNeXtBlock(width, rngs=rngs) for _ in range(count)]
        self.layers = nnx.List(layers)
        self.norm, self.head = LayerNorm(768, rngs=rngs), nnx.Linear(768, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.mean((1, 2))))


class SqueezeExcitation(nnx.Module):
    """Scales each channel by what two linear layers make of all channels' means."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        squeezed = max(8, (width // 4 + 4) // 8 * 8)
        squeezed += 8 if squeezed < 0.9 * (width // 4) else 0
        self.fc1, self.fc2 = nnx.Linear(width, squeezed, rngs=rngs), nnx.Linear(squeezed, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        mean = x.mean((1, 2), keepdims=True)
        return x * nnx.hard_sigmoid(self.fc2(nnx.relu(self.fc1(mean))))


class InvertedResidual(nnx.Module):
    """Widened, convolved channel by channel, and narrowed."""

    def __init__(
        self, inputs: int, size: int, width: int, outputs: int, squeezes: bool, act: Any, stride: int, *, rngs: nnx.Rngs
    ) -> None:
        conv, norm = partial(nnx.Conv, use_bias=False, rngs=rngs), partial(Norm, epsilon=1e-3, momentum=0.99, rngs=rngs)
        layers: list[Any] = [conv(inputs, width, (1, 1)), norm(width), act] if width != inputs else []
        layers.append(conv(width, width, (size, size), strides=stride, padding=size // 2, feature_group_count=width))
        layers += [norm(width), act]
        if squeezes:
            layers.append(SqueezeExcitation(width, rngs=rngs))
        self.layers = nnx.Sequential(*layers, conv(width, outputs, (1, 1)), norm(outputs))
        self.adds = stride == 1 and inputs == outputs

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.layers(x) if self.adds else self.layers(x)


RELU, HARD = nnx.relu, nnx.hard_swish
BLOCKS = (  # input channels, window, width, output channels, whether it squeezes, activation, stride
    *((16, 3, 16, 16, False, RELU, 1), (16, 3, 64, 24, False, RELU, 2), (24, 3, 72, 24, False, RELU, 1)),
    *((24, 5, 72, 40, True, RELU, 2), (40, 5, 120, 40, True, RELU, 1), (40, 5, 120, 40, True, RELU, 1)),
    *((40, 3, 240, 80, False, HARD, 2), (80, 3, 200, 80, False, HARD, 1), (80, 3, 184, 80, False, HARD, 1)),
    *((80, 3, 184, 80, False, HARD, 1), (80, 3, 480, 112, True, HARD, 1), (112, 3, 672, 112, True, HARD, 1)),
    *((112, 5, 672, 160, True, HARD, 2), (160, 5, 960, 160, True, HARD, 1), (160, 5, 960, 160, True, HARD, 1)),
)


class MobileNetV3L(nnx.Module):
    """Images (N, H, W, 3) to 1,000 classes."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        conv, norm = partial(nnx.Conv, use_bias=False, rngs=rngs), partial(Norm, epsilon=1e-3, momentum=0.99, rngs=rngs)
        blocks = [InvertedResidual(*block, rngs=rngs) for block in BLOCKS]
        first = conv(3, 16, (3, 3), strides=2, padding=1), norm(16), HARD
        self.features = nnx.Sequential(*first, *blocks, conv(160, 960, (1, 1)), norm(960), HARD)
        self.fc, self.head = nnx.Linear(960, 1280, rngs=rngs), nnx.Linear(1280, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(HARD(self.fc(self.features(x).mean((1, 2)))))


MODELS: dict[str, Callable[..., nnx.Module]] = {
    "resnet50": ResNet50,
    "mobilenet_v3_large": MobileNetV3L,
    "vit_b_16": ViTB16,
    "convnext_tiny": ConvNeXtT,
}
"""By torchvision's names."""
