"""Transposed convolution with groups and with an ``output_size`` argument.

flax.nnx.ConvTranspose has neither. Without them, Flax's own layer with an explicit padding and
``transpose_kernel=True`` is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.conv import Sizes, check_groups, per_axis
from port.nn.initializers import torch_bias, torch_kernel


class ConvTranspose(nnx.Module):
    """torch.nn.ConvTranspose1d, 2d and 3d, also grouped, channels last: (…, *spatial, in) → (…, *spatial, out).

    The gradient of a convolution: the input is dilated by ``stride``, padded by dilation · (kernel_size − 1) − padding,
    and convolved with the flipped kernel. Source: torch.nn.ConvTranspose2d's documentation. Initial values are drawn as
    torch draws them.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: the window, a number for each spatial axis; an int is one spatial axis.
        stride: steps between the input's elements in the result; an int applies to every axis, here and below.
        padding: elements cut off at both ends of each axis of the result.
        output_padding: elements computed beyond the end of each axis, less than stride or dilation.
        groups: number of blocks of channels that are convolved separately.
        bias: learn a shift per output channel.
        dilation: steps between the elements of a window.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of kernel (*window, out / groups, in) and bias.
        kernel_metadata: of the kernel, from `port.nn.logical_axes`.
        bias_metadata: of the bias.
        rngs: for the initial values.

    Raises:
        UsageError: channels that the groups do not divide; at the call, an output padding or size out of range.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        kernel_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        check_groups(in_channels, out_channels, groups)
        self.kernel_size = (kernel_size,) if isinstance(kernel_size, int) else tuple(kernel_size)
        axes = len(self.kernel_size)
        self.stride, self.padding = per_axis(stride, axes), per_axis(padding, axes)
        self.output_padding, self.dilation = per_axis(output_padding, axes), per_axis(dilation, axes)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.dtype = dtype
        shape = (*self.kernel_size, out_channels // groups, in_channels)
        self.kernel = nnx.Param(torch_kernel()(rngs.params(), shape, param_dtype), **kernel_metadata)
        self.bias: Any = nnx.data(None)
        if bias:
            # torch takes the fan-in from the weight's axis 1, which here holds the outputs of one input.
            fan_in = out_channels // groups * prod(self.kernel_size)
            self.bias = nnx.Param(torch_bias(fan_in)(rngs.params(), (out_channels,), param_dtype), **bias_metadata)

    def __call__(self, x: jax.Array, output_size: Sequence[int] | None = None) -> jax.Array:
        """Convolve ``x`` (…, *spatial, in_channels), with any number of batch axes, including none.

        Args:
            x: the input.
            output_size: the spatial size of the result, in place of ``output_padding``.
        """
        axes = len(self.kernel_size)
        batch, spatial = x.shape[: x.ndim - 1 - axes], x.shape[-1 - axes : -1]
        added = self.output_padding if output_size is None else self._added(spatial, tuple(output_size))
        for extra, stride, dilation in zip(added, self.stride, self.dilation, strict=True):
            if extra >= max(stride, dilation):
                raise UsageError(
                    f"output padding {added} must be less than stride {self.stride} or dilation {self.dilation}"
                )
        before = [d * (k - 1) - p for k, p, d in zip(self.kernel_size, self.padding, self.dilation, strict=True)]
        dtype = self.dtype or jnp.result_type(x, self.kernel[...])
        y = jax.lax.conv_general_dilated(
            x.reshape(-1, *x.shape[len(batch) :]).astype(dtype),
            self._flipped_kernel().astype(dtype),
            (1,) * axes,
            [(low, low + extra) for low, extra in zip(before, added, strict=True)],
            lhs_dilation=self.stride,
            rhs_dilation=self.dilation,
            dimension_numbers=_channels_last(axes),
            feature_group_count=self.groups,
        )
        if self.bias is not None:
            y = y + self.bias[...].astype(dtype)
        return y.reshape(*batch, *y.shape[1:])

    def _flipped_kernel(self) -> jax.Array:
        """Flip the kernel for a convolution: (*window, out/groups, in) → (*window, in/groups, out)."""
        kernel = jnp.flip(self.kernel[...], tuple(range(len(self.kernel_size))))
        each = self.in_channels // self.groups
        grouped = kernel.reshape(*self.kernel_size, -1, self.groups, each)  # … out/groups, groups, in/groups
        return jnp.moveaxis(grouped, -1, -3).swapaxes(-1, -2).reshape(*self.kernel_size, each, self.out_channels)

    def _added(self, spatial: tuple[int, ...], output_size: tuple[int, ...]) -> tuple[int, ...]:
        """Return by how much ``output_size`` exceeds the smallest possible size, for each axis."""
        windows = zip(spatial, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        smallest = tuple((size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in windows)
        added = tuple(size - low for size, low in zip(output_size, smallest, strict=False))
        fits = len(output_size) == len(smallest)
        if not fits or any(not 0 <= extra < stride for extra, stride in zip(added, self.stride, strict=True)):
            raise UsageError(
                f"for an input of {spatial} the output is at least {smallest}, and longer by less than the stride "
                f"{self.stride}; got output_size {output_size}"
            )
        return added


def _channels_last(axes: int) -> jax.lax.ConvDimensionNumbers:
    ends, spatial = (0, axes + 1), tuple(range(1, axes + 1))
    data = (*ends, *spatial)
    return jax.lax.ConvDimensionNumbers(data, (axes + 1, axes, *range(axes)), data)
