"""Convolution and its transpose with all of torch's options, channels last.

`jax.lax.conv_general_dilated` is the same without bias and with one batch axis; `jax.lax.conv_transpose` pads
differently.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.nn.functional.windows import Sizes, each_axis


def conv(
    input: jax.Array,
    kernel: jax.Array,
    bias: jax.Array | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> jax.Array:
    """(…, *spatial, in) → (…, *spatial, out): torch.nn.functional.conv2d, and 1d and 3d.

    Args:
        input: with any number of batch axes, including none.
        kernel: (*window, in / groups, out), as in `flax.nnx.Conv`.
        bias: one number for each channel.
        stride: steps between windows; one number for all axes, here and below.
        padding: zeros at both ends of each axis; or ``"valid"``, ``"same"``.
        dilation: steps between the elements of a window.
        groups: number of blocks of channels that are convolved separately.

    Raises:
        UsageError: kernel and input differ in channels.
    """
    axes = kernel.ndim - 2
    if input.shape[-1] != kernel.shape[-2] * groups:
        raise UsageError(f"a kernel of {kernel.shape[-2]} · {groups} channels cannot take {input.shape[-1]} channels")
    y = jax.lax.conv_general_dilated(
        input.reshape(-1, *input.shape[-1 - axes :]),
        kernel,
        each_axis(stride, axes, "stride"),
        padding.upper() if isinstance(padding, str) else [(p, p) for p in each_axis(padding, axes, "padding")],
        rhs_dilation=each_axis(dilation, axes, "dilation"),
        dimension_numbers=_channels_last(axes),
        feature_group_count=groups,
    )
    y = y.reshape(*input.shape[: -1 - axes], *y.shape[1:])
    return y if bias is None else y + bias


def _channels_last(axes: int) -> tuple[str, str, str]:
    places = "DHW"[-axes:]
    return f"N{places}C", f"{places}IO", f"N{places}C"


def conv_transpose(
    input: jax.Array,
    kernel: jax.Array,
    bias: jax.Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> jax.Array:
    """(…, *spatial, in) → (…, *spatial, out): torch.nn.functional.conv_transpose2d, and 1d and 3d.

    Args:
        input: with any number of batch axes, including none.
        kernel: (*window, out / groups, in), as in `port.nn.ConvTranspose`.
        bias: one number for each channel.
        stride: steps between the input's elements in the result; one number for all axes, here and below.
        padding: elements cut off at both ends of each axis of the result.
        output_padding: elements computed beyond the end of each axis.
        groups: number of blocks of channels that are convolved separately.
        dilation: steps between the elements of a window.

    Raises:
        UsageError: kernel and input differ in channels.
    """
    axes = kernel.ndim - 2
    window, (each, channels) = kernel.shape[:axes], kernel.shape[axes:]
    if input.shape[-1] != channels or channels % groups:
        raise UsageError(f"a kernel of {channels} channels in {groups} groups cannot take {input.shape[-1]} channels")
    strides, dilations = each_axis(stride, axes, "stride"), each_axis(dilation, axes, "dilation")
    cut, added = each_axis(padding, axes, "padding"), each_axis(output_padding, axes, "output_padding")
    flipped = jnp.flip(kernel, tuple(range(axes))).reshape(*window, each, groups, channels // groups)
    flipped = jnp.moveaxis(flipped, -1, -3).swapaxes(-1, -2).reshape(*window, channels // groups, groups * each)
    before = [d * (k - 1) - p for k, p, d in zip(window, cut, dilations, strict=True)]
    y = jax.lax.conv_general_dilated(
        input.reshape(-1, *input.shape[-1 - axes :]),
        flipped,
        (1,) * axes,
        [(low, low + extra) for low, extra in zip(before, added, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_channels_last(axes),
        feature_group_count=groups,
    )
    y = y.reshape(*input.shape[: -1 - axes], *y.shape[1:])
    return y if bias is None else y + bias
