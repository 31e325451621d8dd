"""ResNets as they are written in Flax, for torchvision's `ResNet` of basic blocks: once in nnx, once in Linen.

Short ones, of the first two of torchvision's four layers. Their own ways: nnx keeps all blocks in one list and calls
shortcuts by that name; Linen has the names that ``nn.compact`` gives (``ResidualBlock_3.Conv_1``). Channels are
last, and the first convolution's stride and padding are said as torch has them.

Paper: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import linen, nnx
from torchvision.models.resnet import BasicBlock
from torchvision.models.resnet import ResNet as TorchvisionResNet

from port.nn import BatchNorm

BLOCKS = (2, 1)
WIDTHS = (64, 128)
CLASSES = 5
SAME = ((1, 1), (1, 1))
PLAN = [
    (width, 2 if stage and not block else 1)
    for stage, (width, blocks) in enumerate(zip(WIDTHS, BLOCKS, strict=True))
    for block in range(blocks)
]
"""(width, stride) of each block."""

NNX_NAMES = {
    **{
        rf"^layer{stage + 1}\.{block}\.": f"blocks_layers.{sum(BLOCKS[:stage]) + block}."
        for stage, blocks in enumerate(BLOCKS)
        for block in range(blocks)
    },
    r"^conv1\.": "stem_conv.",
    r"^bn1\.": "stem_norm.",
    r"downsample\.0\.": "shortcut.",
    r"downsample\.1\.": "shortcut_norm.",
    r"^fc\.": "head.",
}
"""torchvision's names → the nnx model's."""

LINEN_NAMES = {
    **{pattern: name.replace("blocks_layers.", "ResidualBlock_") for pattern, name in NNX_NAMES.items()},
    r"(ResidualBlock_\d+)\.conv1\.": r"\1.Conv_0.",
    r"(ResidualBlock_\d+)\.bn1\.": r"\1.BatchNorm_0.",
    r"(ResidualBlock_\d+)\.conv2\.": r"\1.Conv_1.",
    r"(ResidualBlock_\d+)\.bn2\.": r"\1.BatchNorm_1.",
    r"^head\.": "Dense_0.",
}


def short_torchvision_resnet() -> TorchvisionResNet:
    """torchvision's without its last two layers. (N, 3, H, W) → (N, 5)."""
    model = TorchvisionResNet(BasicBlock, [*BLOCKS, 1, 1])
    model.layer3 = model.layer4 = torch.nn.Identity()
    model.fc = torch.nn.Linear(WIDTHS[-1], CLASSES)
    return model


def flax_batch_norm(features: int, *, param_dtype: Any, rngs: nnx.Rngs) -> nnx.BatchNorm:
    """flax's own, with torch's constants. Its running variance is the biased one; its statistics are float32 whatever
    the parameters are, until one says otherwise."""
    norm = nnx.BatchNorm(
        features, momentum=0.9, epsilon=1e-5, use_fast_variance=False, param_dtype=param_dtype, rngs=rngs
    )
    norm.mean, norm.var = (nnx.BatchStat(jnp.zeros(features, param_dtype)) for _ in range(2))
    return norm


class Block(nnx.Module):
    def __init__(
        self, inputs: int, width: int, stride: int, norm: Callable[..., Any], *, dtype: Any, rngs: nnx.Rngs
    ) -> None:
        conv = partial(nnx.Conv, use_bias=False, param_dtype=dtype, rngs=rngs)
        normalise = partial(norm, param_dtype=dtype, rngs=rngs)
        self.conv1 = conv(inputs, width, (3, 3), strides=stride, padding=SAME)
        self.bn1 = normalise(width)
        self.conv2 = conv(width, width, (3, 3), padding=SAME)
        self.bn2 = normalise(width)
        changes = stride > 1 or inputs != width
        self.shortcut = conv(inputs, width, (1, 1), strides=stride, padding="VALID") if changes else None
        self.shortcut_norm = normalise(width) if changes else None

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, H, W, C)
        y = self.bn2(self.conv2(nnx.relu(self.bn1(self.conv1(x)))))
        if self.shortcut is not None:
            x = self.shortcut_norm(self.shortcut(x))
        return nnx.relu(x + y)


class FlaxResNet(nnx.Module):
    """(N, H, W, 3) → (N, 5)."""

    def __init__(self, *, norm: Callable[..., Any] = BatchNorm, dtype: Any = jnp.float64, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"dtype": dtype, "rngs": rngs}
        self.stem_conv = nnx.Conv(
            3, 64, (7, 7), strides=2, padding=((3, 3), (3, 3)), use_bias=False, param_dtype=dtype, rngs=rngs
        )
        self.stem_norm = norm(64, param_dtype=dtype, rngs=rngs)
        inputs = (64, *(width for width, _ in PLAN[:-1]))
        self.blocks_layers = nnx.List(
            [Block(before, width, stride, norm, **given) for before, (width, stride) in zip(inputs, PLAN, strict=True)]
        )
        self.head = nnx.Linear(WIDTHS[-1], CLASSES, param_dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.stem_norm(self.stem_conv(x)))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=SAME)
        for block in self.blocks_layers:
            x = block(x)
        return self.head(x.mean((1, 2)))


class ResidualBlock(linen.Module):
    width: int
    stride: int
    norm: Callable[..., Any]

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        conv = partial(linen.Conv, use_bias=False, param_dtype=jnp.float64)
        y = linen.relu(self.norm()(conv(self.width, (3, 3), self.stride, SAME)(x)))
        y = self.norm()(conv(self.width, (3, 3), padding=SAME)(y))
        if x.shape != y.shape:
            x = conv(self.width, (1, 1), self.stride, "VALID", name="shortcut")(x)
            x = self.norm(name="shortcut_norm")(x)
        return linen.relu(x + y)


class LinenResNet(linen.Module):
    """(N, H, W, 3) → (N, 5)."""

    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        norm = partial(
            linen.BatchNorm,
            use_running_average=not train,
            momentum=0.9,
            epsilon=1e-5,
            use_fast_variance=False,
            param_dtype=jnp.float64,
        )
        conv = partial(linen.Conv, use_bias=False, param_dtype=jnp.float64)
        x = conv(64, (7, 7), 2, ((3, 3), (3, 3)), name="stem_conv")(x)
        x = linen.relu(norm(name="stem_norm")(x))
        x = linen.max_pool(x, (3, 3), (2, 2), SAME)
        for width, stride in PLAN:
            x = ResidualBlock(width, stride, norm)(x)
        return linen.Dense(CLASSES, param_dtype=jnp.float64)(x.mean((1, 2)))
