"""A network of images: every pool and resize, computed weights, a transposed convolution that is not symmetric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import torch
from flax import nnx
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from port.nn import SpectralNorm, WeightNorm
from port.nn import functional as F

from .fault import Fault, Twin, drawn

WINDOW = 2, 2


class Images(nn.Module):
    """(N, 3, 20, 16) → (N, 2, 4, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mid = nn.Conv2d(3, 4, 3, stride=2), nn.Conv2d(4, 4, 3, padding=1)
        self.spectral = parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, padding=1))
        self.weighted = parametrizations.weight_norm(nn.Conv2d(4, 4, 1))
        self.up = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.norm = nn.BatchNorm2d(3, momentum=None)
        self.low, self.head = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.stem(x), approximate="tanh")
        x = self.mid(functional.max_pool2d(x, 2, 1, dilation=2)[:, :, :7, :5])
        x = self.spectral(functional.avg_pool2d(x, 2, divisor_override=3))
        x = self.weighted(functional.interpolate(x, (7, 5), mode="bicubic"))
        x = self.up(functional.interpolate(x, (4, 4), mode="bilinear"))
        x = self.low(functional.interpolate(self.norm(x), scale_factor=0.7, mode="bilinear"))
        return self.head(functional.adaptive_avg_pool2d(x, (4, 3)))


class Directed(WeightNorm):
    """Takes the direction for the weight."""

    def computed(self) -> jax.Array:
        return self.original[...]


class Undivided(SpectralNorm):
    """Takes the weight as it is."""

    def computed(self) -> jax.Array:
        super().computed()
        return self.original[...]


class FromTheEnd(nnx.Conv):
    """A convolution whose windows end at the last place."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        kernel = self.kernel[...]
        self.kernel[...] = kernel[::-1, ::-1]
        result = super().__call__(inputs[:, ::-1, ::-1])
        self.kernel[...] = kernel
        return result[:, ::-1, ::-1]


def right_norm(rngs: nnx.Rngs) -> nnx.Module:
    from port.nn import BatchNorm

    return BatchNorm(3, momentum=None)


def flaxs_norm(rngs: nnx.Rngs) -> nnx.Module:
    return nnx.BatchNorm(3, momentum=0.9, epsilon=1e-5, use_fast_variance=False, rngs=rngs)


def resized(mode: str, **options: Any) -> Callable[..., jax.Array]:
    return lambda x, size: F.interpolate(x, size, mode=mode, **options)


def jaxs(method: str) -> Callable[..., jax.Array]:
    return lambda x, size: jax.image.resize(x, (len(x), *size, x.shape[-1]), method)


BICUBIC, BILINEAR = resized("bicubic"), resized("bilinear")


class FlaxImages(nnx.Module):
    """The same, channels last."""

    def __init__(
        self,
        *,
        stem: type[nnx.Conv] = nnx.Conv,
        exact: bool = False,
        dilation: int = 2,
        divisor: int | None = 3,
        spectral: type[SpectralNorm] = SpectralNorm,
        weighted: type[WeightNorm] = WeightNorm,
        grow: Callable[..., jax.Array] = BICUBIC,
        shrink: Callable[..., jax.Array] = BILINEAR,
        up: Any = ((1, 2), (1, 2)),
        norm: Callable[[nnx.Rngs], nnx.Module] = right_norm,
        by_factor: bool = True,
        adaptive: bool = True,
        pad: int = 1,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.stem, self.mid = (
            stem(3, 4, (3, 3), strides=2, padding=0, rngs=rngs),
            nnx.Conv(4, 4, (3, 3), padding=pad, rngs=rngs),
        )
        self.spectral = spectral(nnx.Conv(4, 4, (3, 3), padding=1, rngs=rngs), rngs=rngs)
        self.weighted = weighted(nnx.Conv(4, 4, (1, 1), rngs=rngs))
        self.up = nnx.ConvTranspose(4, 3, (3, 3), strides=(2, 2), padding=up, transpose_kernel=True, rngs=rngs)
        self.norm = norm(rngs)
        self.low, self.head = nnx.Conv(3, 3, (1, 1), rngs=rngs), nnx.Conv(3, 2, (1, 1), rngs=rngs)
        self.exact, self.dilation, self.divisor, self.grow, self.shrink = exact, dilation, divisor, grow, shrink
        self.by_factor, self.adaptive = by_factor, adaptive

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.gelu(self.stem(x), approximate=not self.exact)
        x = F.max_pool(x, WINDOW, 1, dilation=self.dilation)[:, :7, :5]
        x = F.avg_pool(self.mid(x), WINDOW, divisor_override=self.divisor)
        x = self.weighted(self.grow(self.spectral(x), (7, 5)))
        x = self.norm(self.up(self.shrink(x, (4, 4))))
        size = {"scale_factor": 0.7} if self.by_factor else {"size": (5, 5)}
        x = self.low(F.interpolate(x, mode="bilinear", **size))
        x = F.adaptive_avg_pool(x, (4, 3)) if self.adaptive else nnx.avg_pool(x, (2, 3), (1, 1))
        return self.head(x)


IMAGES = Twin("Images", Images, FlaxImages, lambda: drawn(4, 3, 20, 16))

FAULTS = (
    Fault("windows at the other end", IMAGES, "stem", ("stride-offset",), {"stem": FromTheEnd}),
    Fault("exact GELU", IMAGES, "mid", ("exact-gelu",), {"exact": True}),
    Fault("dilation of a pool missing", IMAGES, "mid", ("pool-dilation-missing",), {"dilation": 1}),
    Fault("padding missing", IMAGES, "mid", ("padding-missing",), {"pad": 0}),
    Fault("divisor missing", IMAGES, "spectral", ("divisor-missing",), {"divisor": None}),
    Fault("spectral norm missing", IMAGES, "spectral", ("spectral-norm-missing",), {"spectral": Undivided}),
    Fault("weight norm missing", IMAGES, "weighted", ("weight-norm-missing",), {"weighted": Directed}),
    Fault("jax's cubic", IMAGES, "weighted", ("cubic-coefficient",), {"grow": jaxs("cubic")}),
    Fault("smoothed where it shrinks", IMAGES, "up", ("antialias",), {"shrink": jaxs("bilinear")}),
    Fault("padding SAME of a transposed convolution", IMAGES, "up", ("padding-at-a-stride",), {"up": "SAME"}),
    Fault(
        "cumulative average missing",
        IMAGES,
        "norm",
        ("cumulative-average-missing", "biased-running-variance"),
        {"norm": flaxs_norm},
    ),
    Fault("ratio of the sizes for the factor", IMAGES, "low", ("scale-factor",), {"by_factor": False}),
    Fault("plain pool for an adaptive one", IMAGES, "head", ("adaptive-windows",), {"adaptive": False}),
)
