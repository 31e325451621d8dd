"""A U-Net: pooling with ceil_mode, GroupNorm, resizing, a transposed convolution, concatenations, reflected edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch.nn import functional

from port.nn import functional as F

from .fault import Fault, Twin, drawn


class UNet(nn.Module):
    """(N, 2, 9, 7) → (N, 3, 9, 7)."""

    def __init__(self) -> None:
        super().__init__()
        self.enc1 = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
        self.enc2, self.norm = nn.Conv2d(4, 8, 3, padding=2, dilation=2), nn.GroupNorm(2, 8)
        self.mid, self.dec2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(16, 8, 1)
        self.up, self.dec1, self.head = nn.ConvTranspose2d(8, 4, 3, padding=1), nn.Conv2d(8, 4, 3), nn.Conv2d(4, 3, 1)
        self.down1 = nn.MaxPool2d(2, ceil_mode=True)
        self.down2 = nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = functional.leaky_relu(self.enc1(x), 0.2)
        two = functional.silu(self.norm(self.enc2(self.down1(one))))
        low = functional.elu(self.mid(self.down2(two)))
        high = functional.interpolate(low, size=two.shape[2:], mode="bilinear", align_corners=False)
        high = torch.relu(self.dec2(torch.cat([two, high], 1)))
        high = functional.interpolate(high, size=one.shape[2:], mode="nearest")
        high = torch.cat([one, self.up(high)], 1)
        return self.head(functional.gelu(self.dec1(functional.pad(high, (1, 1, 1, 1), mode="replicate"))))


def right_bilinear(x: jax.Array, size: tuple[int, ...]) -> jax.Array:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def aligned(x: jax.Array, size: tuple[int, ...]) -> jax.Array:
    return F.interpolate(x, size=size, mode="bilinear", align_corners=True)


def right_nearest(x: jax.Array, size: tuple[int, ...]) -> jax.Array:
    return F.interpolate(x, size=size, mode="nearest")


def jaxs(method: str) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """jax.image.resize."""
    return lambda x, size: jax.image.resize(x, (len(x), *size, x.shape[-1]), method)


class UnflippedTranspose(nnx.ConvTranspose):
    """A transposed convolution whose kernel is read back to front."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        kernel = self.kernel[...]
        self.kernel[...] = kernel[::-1, ::-1]
        result = super().__call__(inputs)
        self.kernel[...] = kernel
        return result


class FlaxUNet(nnx.Module):
    """The same, channels last."""

    def __init__(
        self,
        *,
        slope: float = 0.2,
        edges: str = "REFLECT",
        ceil: bool = True,
        counts: bool = True,
        groups: int = 2,
        dilation: int = 2,
        bilinear: Callable[..., jax.Array] = right_bilinear,
        nearest: Callable[..., jax.Array] = right_nearest,
        swap: bool = False,
        swap_last: bool = False,
        up: type[nnx.ConvTranspose] = nnx.ConvTranspose,
        outer: str = "edge",
        flip: bool = False,
        inner: Callable[[jax.Array], jax.Array] = jax.nn.elu,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.enc1 = nnx.Conv(2, 4, (3, 3), padding=edges, rngs=rngs)
        self.enc2 = nnx.Conv(4, 8, (3, 3), padding=dilation, kernel_dilation=dilation, rngs=rngs)
        self.norm = nnx.GroupNorm(8, num_groups=groups, epsilon=1e-5, use_fast_variance=False, rngs=rngs)
        self.mid, self.dec2 = nnx.Conv(8, 8, (3, 3), padding=1, rngs=rngs), nnx.Conv(16, 8, (1, 1), rngs=rngs)
        self.up = up(8, 4, (3, 3), padding=((1, 1), (1, 1)), transpose_kernel=True, rngs=rngs)
        self.dec1, self.head = nnx.Conv(8, 4, (3, 3), padding=0, rngs=rngs), nnx.Conv(4, 3, (1, 1), rngs=rngs)
        self.slope, self.ceil, self.counts, self.outer = slope, ceil, counts, outer
        self.bilinear, self.nearest, self.swap, self.swap_last = bilinear, nearest, swap, swap_last
        self.flip, self.inner = flip, inner

    def __call__(self, x: jax.Array) -> jax.Array:
        one = jax.nn.leaky_relu(self.enc1(x), self.slope)
        down = F.max_pool(one, (2, 2), 2, ceil_mode=self.ceil)
        two = jax.nn.silu(self.norm(self.enc2(down)))
        low = nnx.avg_pool(two, (3, 3), (2, 2), ((1, 1), (1, 1)), count_include_pad=self.counts)
        low = self.inner(self.mid(low[:, ::-1] if self.flip else low))
        high = self.bilinear(low, two.shape[1:3])
        high = jax.nn.relu(self.dec2(jnp.concatenate([high, two] if self.swap else [two, high], -1)))
        high = self.up(self.nearest(high, one.shape[1:3]))
        high = jnp.concatenate([high, one] if self.swap_last else [one, high], -1)
        edges = {"edge": "edge", "zeros": "constant", "reflect": "reflect"}[self.outer]
        high = jnp.pad(high, ((0, 0), (1, 1), (1, 1), (0, 0)), mode=edges)
        return self.head(jax.nn.gelu(self.dec1(high), approximate=False))


UNET = Twin("U-Net", UNet, FlaxUNet, lambda: drawn(3, 2, 9, 7))

FAULTS = (
    Fault("negative slope", UNET, "enc2", ("negative-slope",), {"slope": 0.01}),
    Fault("padding mode", UNET, "enc1", ("padding-mode",), {"edges": "CIRCULAR"}),
    Fault("padding mode of the model's own", UNET, "dec1", ("padding-mode",), {"outer": "zeros"}),
    Fault("ceil mode", UNET, "enc2", ("ceil-mode",), {"ceil": False}),
    Fault("padding not counted", UNET, "mid", ("count-include-pad",), {"counts": False}),
    Fault("number of groups", UNET, "norm", ("number-of-groups",), {"groups": 4}),
    Fault("dilation missing", UNET, "enc2", ("dilation-missing",), {"dilation": 1}),
    Fault("align_corners", UNET, "dec2", ("align-corners",), {"bilinear": aligned}),
    Fault("nearest for bilinear", UNET, "dec2", ("interpolation-mode",), {"bilinear": right_nearest}),
    Fault("jax's nearest", UNET, "up", ("interpolation-mode",), {"nearest": jaxs("nearest")}),
    Fault("concatenation order", UNET, "dec2", ("concatenation-order",), {"swap": True}),
    Fault("concatenation order, last", UNET, "dec1", ("concatenation-order",), {"swap_last": True}),
    Fault("kernel of a transposed convolution flipped", UNET, "up", ("kernel-flipped",), {"up": UnflippedTranspose}),
    Fault("another activation", UNET, "dec2", ("another-activation",), {"inner": jax.nn.relu}),
    Fault("rows upside down", UNET, "mid", ("axis-flipped",), {"flip": True}),
)
