"""A ResNet: a strided stem, BatchNorm, max pooling, a shortcut with a convolution, a flatten before the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from port.nn import BatchNorm

from .fault import Fault, Twin, at, drawn, fresh, swapped


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(out), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(channels, out, 1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.short(x)
        return self.relu(out)


class ResNet(nn.Module):
    """(N, 3, 16, 12) → (N, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.block1, self.block2 = Block(4, 4, 1), Block(4, 6, 2)
        self.fc = nn.Linear(6 * 2 * 2, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.bn(self.stem(x))) - 0.4)
        x = self.block2(self.block1(x))
        return self.fc(torch.flatten(x, 1))


class FlaxBlock(nnx.Module):
    """The same."""

    def __init__(
        self, channels: int, out: int, stride: int, norm: Callable[[int], Any], options: dict[str, Any]
    ) -> None:
        rngs = nnx.Rngs(0)
        conv, padding = options.get("conv", nnx.Conv), options.get("padding", 1)
        self.conv1 = conv(channels, out, (3, 3), strides=stride, padding=padding, use_bias=False, rngs=rngs)
        self.conv2 = nnx.Conv(out, out, (3, 3), padding=1, use_bias=False, rngs=rngs)
        self.bn1, self.bn2 = norm(out), norm(out)
        self.short = nnx.Conv(channels, out, (1, 1), strides=stride, rngs=rngs)
        self.keep, self.act = options.get("keep", True), options.get("act", jax.nn.relu)

    def __call__(self, x: jax.Array) -> jax.Array:
        out = self.act(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.act(out + self.short(x) if self.keep else out)


class Flipped(nnx.Conv):
    """A convolution as mathematics has it."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        kernel = self.kernel[...]
        self.kernel[...] = kernel[::-1, ::-1]
        result = super().__call__(inputs)
        self.kernel[...] = kernel
        return result


class Turned(nnx.Conv):
    """A convolution that takes the width for the height."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        kernel = self.kernel[...]
        self.kernel[...] = kernel.swapaxes(0, 1)
        result = super().__call__(inputs)
        self.kernel[...] = kernel
        return result


class OfTheBatch(BatchNorm):
    """Statistics of the batch, in evaluation too."""

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> jax.Array:
        return super().__call__(x, use_running_average=False)


def right(width: int) -> nnx.Module:
    return BatchNorm(width)


def flaxs(**options: Any) -> Callable[[int], nnx.Module]:
    """flax's own BatchNorm."""
    given = {"momentum": 0.9, "epsilon": 1e-5, "use_fast_variance": False, **options}
    return lambda width: nnx.BatchNorm(width, **given, rngs=nnx.Rngs(0))


def same_pool(x: jax.Array) -> jax.Array:
    return nnx.max_pool(x, (3, 3), (2, 2), "SAME")


def zero_pool(x: jax.Array) -> jax.Array:
    return nnx.max_pool(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (2, 2), "VALID")


def right_pool(x: jax.Array) -> jax.Array:
    return nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))


def average_pool(x: jax.Array) -> jax.Array:
    return nnx.avg_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))


class FlaxResNet(nnx.Module):
    """The same, (N, 16, 12, 3) → (N, 5)."""

    def __init__(
        self,
        *,
        stem: Any = 1,
        norm: Callable[[int], Any] = right,
        batch_norm: type | None = None,
        pool: Callable[[jax.Array], jax.Array] = right_pool,
        conv: type[nnx.Conv] = nnx.Conv,
        **block: Any,
    ) -> None:
        rngs = nnx.Rngs(0)
        norm = norm if batch_norm is None else batch_norm
        self.stem = conv(3, 4, (3, 3), strides=2, padding=stem, use_bias=False, rngs=rngs)
        self.bn, self.pool = norm(4), pool
        self.block1, self.block2 = FlaxBlock(4, 4, 1, norm, block), FlaxBlock(4, 6, 2, norm, block)
        self.fc = nnx.Linear(6 * 2 * 2, 5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.pool(jax.nn.relu(self.bn(self.stem(x))) - 0.4)
        x = self.block2(self.block1(x))
        return self.fc(x.reshape(len(x), -1))


RESNET = Twin("ResNet", ResNet, FlaxResNet, lambda: drawn(8, 3, 16, 12), fold={"fc": (6, 2, 2)})


def not_loaded(module: Any) -> None:
    """Flax's statistics as a new layer has them."""
    at("bn.mean", lambda mean: 0 * mean)(module)
    at("bn.var", lambda var: 0 * var + 1)(module)


FAULTS = (
    Fault("padding SAME at a stride", RESNET, "stem", ("padding-at-a-stride",), {"stem": "SAME"}),
    Fault("padding SAME at a stride, deeper", RESNET, "block2.conv1", ("padding-at-a-stride",), {"padding": "SAME"}),
    Fault("kernel flipped", RESNET, "stem", ("kernel-flipped",), {"conv": Flipped}),
    Fault("kernel's height and width exchanged", RESNET, "stem", ("kernel-transposed",), {"conv": Turned}),
    Fault(
        "kernel transposed as it is loaded",
        RESNET,
        "block1.conv1",
        ("kernel-transposed",),
        change=at("block1.conv1.kernel", lambda k: k.transpose(1, 0, 2, 3)),
    ),
    Fault(
        "kernel's channels exchanged as it is loaded",
        RESNET,
        "block1.conv2",
        ("kernel-transposed",),
        change=at("block1.conv2.kernel", lambda k: k.transpose(0, 1, 3, 2)),
    ),
    Fault("epsilon", RESNET, "bn", ("epsilon",), {"norm": flaxs(epsilon=1e-3)}),
    Fault(
        "momentum reversed",
        RESNET,
        "bn",
        ("momentum-reversed", "biased-running-variance"),
        {"norm": flaxs(momentum=0.1)},
    ),
    Fault(
        "momentum at Flax's default",
        RESNET,
        "bn",
        ("momentum", "biased-running-variance"),
        {"norm": flaxs(momentum=0.99)},
    ),
    Fault("biased running variance", RESNET, "bn", ("biased-running-variance",), {"norm": flaxs()}),
    Fault("running statistics not used", RESNET, "bn", ("running-statistics-not-used",), {"batch_norm": OfTheBatch}),
    Fault("running statistics not loaded", RESNET, "bn", ("running-statistics-not-loaded",), change=not_loaded),
    Fault("max pool padded with zeros", RESNET, "block1.conv1", ("pool-padded-with-zeros",), {"pool": zero_pool}),
    Fault("average for max pool", RESNET, "block1.conv1", ("another-pooling",), {"pool": average_pool}),
    Fault("flatten order", RESNET, "fc", ("flatten-order",), fold=None),
    Fault("shortcut missing", RESNET, "block1", ("addition-missing",), {"keep": False}),
    Fault("LeakyReLU for ReLU", RESNET, "block1.conv2", ("another-activation",), {"act": jax.nn.leaky_relu}),
    Fault(
        "weights of the neighbour",
        RESNET,
        "block1.conv1",
        ("weights-of-another-layer",),
        change=swapped("block1.conv1.kernel", "block1.conv2.kernel"),
    ),
    Fault("weights not loaded", RESNET, "block2.short", ("weights-not-loaded",), change=fresh("block2.short.kernel")),
)
