"""Average pooling with all of torch's options, channels last: (N, *spatial, C) or (*spatial, C).

`flax.nnx.avg_pool` is the same without ``ceil_mode`` and ``divisor_override``; Flax lacks the others. As in Flax, the
length of ``kernel_size`` is the number of spatial axes, so one function serves as torch's 1d, 2d and 3d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.kinks import absolute
from port.nn.functional.max_pooling import max_pool
from port.nn.functional.windows import (
    Sizes,
    adaptive_bounds,
    adaptive_sizes,
    each_axis,
    pads,
    spatial_shape,
    windows_along,
)


def avg_pool(
    input: jax.Array,
    kernel_size: Sequence[int],
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """The mean of each window. Source: torch.nn.AvgPool2d's documentation, ATen's ``avg_pool2d``.

    Args:
        input: (N, *spatial, C) or (*spatial, C), of any float dtype.
        kernel_size: the window, a number for each spatial axis.
        stride: steps between windows; None is the kernel's size.
        padding: zeros at both ends of each axis, at most half the window.
        ceil_mode: keep a last window that extends past the end; elements beyond the padding are never counted.
        count_include_pad: whether padding zeros count as elements.
        divisor_override: divide every sum by this instead.

    Raises:
        UsageError: sizes that do not fit the input, too much padding, a divisor of 0.
    """
    spatial = len(kernel_size)
    lengths = spatial_shape(input, spatial)
    kernel = each_axis(kernel_size, spatial, "kernel_size")
    stride = each_axis(kernel if stride is None else stride, spatial, "stride")
    padding = each_axis(padding, spatial, "padding")
    if any(2 * pad > size for pad, size in zip(padding, kernel, strict=True)):
        raise UsageError(f"padding must be at most half the window: got padding {padding}, kernel_size {kernel}")
    if divisor_override == 0:
        raise UsageError("divisor_override must not be 0")
    axes = list(zip(lengths, kernel, stride, padding, strict=True))
    counts = [windows_along(*axis, ceil=ceil_mode) for axis in axes]

    lead = input.ndim - spatial - 1
    wide = jnp.promote_types(input.dtype, jnp.float32)  # half precision is summed in float32, as by torch
    sums = jax.lax.reduce_window(
        input.astype(wide),
        np.zeros((), wide),
        jax.lax.add,
        (1,) * lead + (*kernel, 1),
        (1,) * lead + (*stride, 1),
        [(0, 0)] * lead + [pads(size, n, k, s, p) for (size, k, s, p), n in zip(axes, counts, strict=True)] + [(0, 0)],
    )
    elements = [_elements(*axis, n, count_include_pad) for axis, n in zip(axes, counts, strict=True)]
    divisor = divisor_override or reduce(np.multiply.outer, elements)[..., None]
    return (sums / jnp.asarray(divisor, sums.dtype)).astype(input.dtype)


def _elements(length: int, kernel: int, stride: int, padding: int, count: int, include_pad: bool) -> np.ndarray:
    """Count the elements of each window along an axis."""
    begin = np.arange(count) * stride - padding
    end = np.minimum(begin + kernel, length + padding)
    return end - begin if include_pad else np.minimum(end, length) - np.maximum(begin, 0)


def adaptive_avg_pool(input: jax.Array, output_size: Sequence[int | None]) -> jax.Array:
    """The mean of windows that cover the input and may overlap: (N, *spatial, C) → (N, *output_size, C).

    Args:
        input: (N, *spatial, C) or (*spatial, C), of any float dtype.
        output_size: windows along each spatial axis; None keeps the axis. Source: torch.nn.AdaptiveAvgPool2d; the
            windows are those of ATen's ``adaptive_avg_pool2d``, ⌊i·length/n⌋ to ⌈(i+1)·length/n⌉.

    Raises:
        UsageError: sizes that do not fit the input.
    """
    lengths = spatial_shape(input, len(output_size))
    x = input.astype(jnp.promote_types(input.dtype, jnp.float32))
    for axis, size in enumerate(adaptive_sizes(output_size, lengths), start=input.ndim - 1 - len(output_size)):
        x = _adaptive_mean(x, axis, size)
    return x.astype(input.dtype)


def _adaptive_mean(x: jax.Array, axis: int, count: int) -> jax.Array:
    length = x.shape[axis]
    if length % count == 0:
        return x.reshape(*x.shape[:axis], count, length // count, *x.shape[axis + 1 :]).mean(axis + 1)
    begin, end = adaptive_bounds(length, count)
    place = begin[:, None] + np.arange((end - begin).max())
    inside = (place < end[:, None]).reshape(*place.shape, *(1,) * (x.ndim - axis - 1))
    return jnp.take(x, np.minimum(place, length - 1), axis).mean(axis + 1, where=inside)


def lp_pool(
    input: jax.Array,
    norm_type: float,
    kernel_size: Sequence[int],
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """(Σ xᵖ)^(1/p) of each window. Source: torch.nn.functional.lp_pool2d; infinite p is a max pool of |x|.

    Args:
        input: (N, *spatial, C) or (*spatial, C).
        norm_type: p; any number but 0. A negative sum, possible with odd powers, gives NaN, as in torch.
        kernel_size: the window, a number for each spatial axis.
        stride: steps between windows; None is the kernel's size.
        ceil_mode: keep a last window that extends past the end; its sum is scaled up to a whole window's, as in torch.

    Raises:
        UsageError: a norm of 0, sizes that do not fit the input.
    """
    if norm_type == 0:
        raise UsageError("norm_type is an exponent and must not be 0")
    if math.isinf(norm_type):
        sign = math.copysign(1, norm_type)
        return sign * cast(jax.Array, max_pool(sign * absolute(input), kernel_size, stride, ceil_mode=ceil_mode))
    total = avg_pool(input**norm_type, kernel_size, stride, ceil_mode=ceil_mode) * math.prod(kernel_size)
    # At 0 torch's gradient is 0, where that of the root is infinite.
    return jnp.where(total == 0, 0, jnp.where(total == 0, 1, total) ** (1 / norm_type))
