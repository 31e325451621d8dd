"""ResNet-20 for 32 × 32 images, both sides, as the published checkpoint of akamaster/pytorch_resnet_cifar10 needs it.

A 3 × 3 convolution to 16 channels, three stages of three basic blocks with 16, 32 and 64, an average, a linear layer.
Where a stage halves the image, the shortcut has no parameters (option A of the paper): every second pixel, with
channels of zeros before and after.

Paper: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015, section 4.2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch.nn import functional

from port.nn import BatchNorm

WIDTHS = (16, 32, 64)
BLOCKS = 3

NAMES = {
    r"^module\.": "",
    r"^layer(\d)\.(\d)\.": r"stage\1.blocks.\2.",
    r"\.conv(\d)\.": r".convolution\1.",
    r"\.bn(\d)\.": r".norm\1.",
    r"^conv1\.": "stem.",
    r"^bn1\.": "stem_norm.",
    r"^linear\.": "head.",
}
"""The checkpoint's names, the wrapper's prefix and all → the Flax model's."""


class TorchBlock(torch.nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.stride = 1 if inputs == width else 2
        self.conv1 = torch.nn.Conv2d(inputs, width, 3, self.stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, C, H, W)
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            added = (y.shape[1] - x.shape[1]) // 2
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, added, added))
        return functional.relu(x + y)


class TorchResNet20(torch.nn.Module):
    """(N, 3, 32, 32) → (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(WIDTHS[0])
        inputs = (WIDTHS[0], *WIDTHS)
        self.layer1, self.layer2, self.layer3 = (
            torch.nn.Sequential(*[TorchBlock(width if block else before, width) for block in range(BLOCKS)])
            for before, width in zip(inputs, WIDTHS, strict=False)
        )
        self.linear = torch.nn.Linear(WIDTHS[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class Block(nnx.Module):
    def __init__(self, inputs: int, width: int, *, dtype: Any, rngs: nnx.Rngs) -> None:
        conv = partial(nnx.Conv, kernel_size=(3, 3), padding=1, use_bias=False, param_dtype=dtype, rngs=rngs)
        self.stride = 1 if inputs == width else 2
        self.convolution1 = conv(inputs, width, strides=self.stride)
        self.norm1 = BatchNorm(width, param_dtype=dtype)
        self.convolution2 = conv(width, width)
        self.norm2 = BatchNorm(width, param_dtype=dtype)

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, H, W, C)
        y = self.norm2(self.convolution2(nnx.relu(self.norm1(self.convolution1(x)))))
        if self.stride == 2:
            added = (y.shape[-1] - x.shape[-1]) // 2
            x = jnp.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (added, added)))
        return nnx.relu(x + y)


class Stage(nnx.Module):
    def __init__(self, inputs: int, width: int, **given: Any) -> None:
        self.blocks = nnx.List([Block(width if block else inputs, width, **given) for block in range(BLOCKS)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x


class FlaxResNet20(nnx.Module):
    """(N, 32, 32, 3) → (N, 10)."""

    def __init__(self, *, dtype: Any = jnp.float32, rngs: nnx.Rngs) -> None:
        given: dict[str, Any] = {"dtype": dtype, "rngs": rngs}
        self.stem = nnx.Conv(3, WIDTHS[0], (3, 3), padding=1, use_bias=False, param_dtype=dtype, rngs=rngs)
        self.stem_norm = BatchNorm(WIDTHS[0], param_dtype=dtype)
        self.stage1 = Stage(WIDTHS[0], WIDTHS[0], **given)
        self.stage2 = Stage(WIDTHS[0], WIDTHS[1], **given)
        self.stage3 = Stage(WIDTHS[1], WIDTHS[2], **given)
        self.head = nnx.Linear(WIDTHS[-1], 10, param_dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.stem_norm(self.stem(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.head(x.mean((1, 2)))
