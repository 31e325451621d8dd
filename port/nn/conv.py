"""Convolution with PyTorch's padding modes.

flax.nnx.Conv pads with zeros, reflects or wraps around by half the kernel only, and cannot replicate. With zeros and an
explicit padding, Flax's own layer is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn.initializers import torch_bias, torch_kernel

Sizes = int | Sequence[int]

_NUMPYS_MODE = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class Conv(nnx.Conv):
    """torch.nn.Conv1d, 2d and 3d with any ``padding_mode``, channels last: (…, *spatial, in) → (…, *spatial, out).

    Pads first, then convolves without padding. Source: torch.nn.Conv2d's documentation and its ``_conv_forward``.
    Initial values are drawn as torch draws them.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: the window, a number for each spatial axis; an int is one spatial axis.
        stride: steps between windows; an int applies to every axis, here and below.
        padding: elements at both ends of each axis; or ``"valid"`` (none), or ``"same"`` (as many as keep the size,
            the odd one at the end).
        dilation: steps between the elements of a window.
        groups: number of blocks of channels that are convolved separately.
        bias: learn a shift per output channel.
        padding_mode: what to pad with: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of kernel (*window, in / groups, out) and bias.
        kernel_metadata: of the kernel, from `port.nn.logical_axes`.
        bias_metadata: of the bias, likewise.
        rngs: for the initial values.

    Raises:
        UsageError: an unknown padding or padding mode; ``"same"`` with a stride; channels that the groups do not
            divide; at the call, an input too small to reflect or wrap by the padding.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        kernel_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        if padding_mode not in _NUMPYS_MODE:
            raise UnknownChoice("padding mode", padding_mode, _NUMPYS_MODE)
        check_groups(in_channels, out_channels, groups)
        window = (kernel_size,) if isinstance(kernel_size, int) else tuple(kernel_size)
        strides, dilations = (per_axis(value, len(window)) for value in (stride, dilation))
        super().__init__(
            in_channels,
            out_channels,
            window,
            strides,
            padding="VALID",
            kernel_dilation=dilations,
            feature_group_count=groups,
            use_bias=bias,
            dtype=dtype,
            param_dtype=param_dtype,
            kernel_init=torch_kernel(),
            bias_init=torch_bias(in_channels // groups * prod(window)),
            kernel_metadata=kernel_metadata,
            bias_metadata=bias_metadata,
            rngs=rngs,
        )
        self.padding_mode = padding_mode
        self.pad_width = _pad_width(padding, window, strides, dilations)

    def __call__(self, x: jax.Array, out_sharding: Any = None) -> jax.Array:
        """Convolve ``x`` (…, *spatial, in_channels), with any number of batch axes, including none."""
        spatial = x.shape[-1 - len(self.pad_width) : -1]
        # The most that an axis can be reflected or wrapped; numpy would repeat the reflection without an error.
        reach = {"reflect": -1, "circular": 0}.get(self.padding_mode)
        if reach is not None and any(
            max(pads) > size + reach for pads, size in zip(self.pad_width, spatial, strict=True)
        ):
            raise UsageError(
                f"padding {self.pad_width} in mode {self.padding_mode!r} reaches over an input of shape {x.shape}"
            )
        batch = ((0, 0),) * (x.ndim - 1 - len(self.pad_width))
        padded = jnp.pad(x, (*batch, *self.pad_width, (0, 0)), mode=_NUMPYS_MODE[self.padding_mode])
        return super().__call__(padded, out_sharding)


def _pad_width(
    padding: Sizes | str, window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each spatial axis."""
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding == "same":
        if any(stride != 1 for stride in strides):
            raise UsageError(f"padding 'same' needs a stride of 1, as in torch; got {strides}")
        totals = [dilation * (size - 1) for size, dilation in zip(window, dilations, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(padding, str):
        raise UnknownChoice("padding", padding, ("valid", "same"))
    return tuple((amount, amount) for amount in per_axis(padding, len(window)))


def per_axis(value: Sizes, axes: int) -> tuple[int, ...]:
    """Return one number for each axis of a window; an int applies to every axis."""
    values = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(values) != axes:
        raise UsageError(f"a window of {axes} axes takes as many numbers, got {values}")
    return values


def check_groups(in_channels: int, out_channels: int, groups: int) -> None:
    """Raise UsageError if the groups do not divide the channels."""
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise UsageError(f"{groups} groups must divide {in_channels} input and {out_channels} output channels")
