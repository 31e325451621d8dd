"""Sliding blocks of an image as rows of a matrix, and their sum back into an image; channels last."""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.windows import Sizes, each_axis, spatial_shape, windows_along


def unfold(
    input: jax.Array, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> jax.Array:
    """(N, H, W, C) → (N, blocks, C·kH·kW): torch.nn.Unfold's, with the blocks before their elements.

    The order within a block is torch's: channel by channel, each with its whole window. Source: torch.nn.Unfold's
    documentation.

    Args:
        input: (N, H, W, C) or (H, W, C).
        kernel_size: the block's height and width; one number for both, here and below.
        dilation: steps between a block's elements.
        padding: zeros at both ends of height and width.
        stride: steps between blocks.

    Raises:
        UsageError: a block larger than the padded image.
    """
    lengths = spatial_shape(input, 2)
    kernel, dilation, padding, stride = (
        each_axis(sizes, 2, name)
        for sizes, name in (
            (kernel_size, "kernel_size"),
            (dilation, "dilation"),
            (padding, "padding"),
            (stride, "stride"),
        )
    )
    ends = [(pad, pad) for pad in padding]
    input = jnp.pad(input, [(0, 0)] * (input.ndim - 3) + ends + [(0, 0)])
    rows, columns = (
        np.arange(windows_along(length, k, s, p, d))[:, None] * s + np.arange(k) * d
        for length, k, s, p, d in zip(lengths, kernel, stride, padding, dilation, strict=True)
    )
    blocks = input[..., rows[:, None, :, None], columns[None, :, None, :], :]  # (N, rows, columns, kH, kW, C)
    lead = input.shape[:-3]
    return jnp.moveaxis(blocks, -1, -3).reshape(*lead, len(rows) * len(columns), input.shape[-1] * prod(kernel))


def fold(
    input: jax.Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> jax.Array:
    """(N, blocks, C·kH·kW) → (N, H, W, C), summed where blocks overlap: the transpose of `unfold`.

    Source: torch.nn.Fold's documentation.

    Args:
        input: (N, blocks, C·kH·kW) or (blocks, C·kH·kW), as `unfold` returns them.
        output_size: H and W; one number for both, here and below.
        kernel_size: the block's height and width.
        dilation: steps between a block's elements.
        padding: the padding of `unfold`, cropped here.
        stride: steps between blocks.

    Raises:
        UsageError: rows that are not blocks of such an image.
    """
    window = prod(each_axis(kernel_size, 2, "kernel_size"))
    channels, rest = divmod(input.shape[-1], window)
    image = jax.ShapeDtypeStruct((*input.shape[:-2], *each_axis(output_size, 2, "output_size"), channels), input.dtype)

    def blocks_of(x: jax.Array) -> jax.Array:
        return unfold(x, kernel_size, dilation, padding, stride)

    expected = jax.eval_shape(blocks_of, image).shape
    if rest or expected != input.shape:
        raise UsageError(f"{output_size} and a window of {window} make blocks of shape {expected}, got {input.shape}")
    (folded,) = jax.linear_transpose(blocks_of, image)(input)
    return folded
