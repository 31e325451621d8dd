"""Sizes and positions of pooling windows, computed at trace time."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from port.errors import UsageError

Sizes = int | Sequence[int]


def each_axis(sizes: Sizes, spatial: int, name: str) -> tuple[int, ...]:
    """Return one number for each spatial axis; a single number applies to every axis, as in torch.

    Raises:
        UsageError: a wrong number of sizes.
    """
    numbers = (sizes,) if isinstance(sizes, int | np.integer) else tuple(sizes)
    if len(numbers) == 1:
        numbers *= spatial
    if len(numbers) != spatial:
        raise UsageError(f"{name} needs a number for each of {spatial} spatial axes, or one for all, got {sizes!r}")
    return tuple(int(size) for size in numbers)


def spatial_shape(input: jax.Array, spatial: int) -> tuple[int, ...]:
    """Return the lengths of the spatial axes of (N, *spatial, C) or (*spatial, C).

    Raises:
        UsageError: an input with a wrong number of axes.
    """
    if input.ndim not in (spatial + 1, spatial + 2):
        raise UsageError(
            f"{spatial} spatial axes need an input of {spatial + 1} axes, (*spatial, C), or {spatial + 2}, "
            f"(N, *spatial, C), got shape {input.shape}"
        )
    return input.shape[-spatial - 1 : -1]


def windows_along(length: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """Count the windows along an axis. Source: ATen's ``pooling_output_shape``.

    ``ceil`` keeps a last window that extends past the end, unless it starts past the input and its left padding.

    Raises:
        UsageError: no window fits.
    """
    span = dilation * (kernel - 1) + 1
    count = (length + 2 * padding - span + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= length + padding:
        count -= 1
    if count < 1:
        raise UsageError(
            f"a window of {span} does not fit into an axis of {length} with {padding} of padding at either end"
        )
    return count


def pads(length: int, count: int, kernel: int, stride: int, padding: int) -> tuple[int, int]:
    """Return the padding before and after an axis that makes ``count`` windows fit, including a last partial one."""
    return padding, max((count - 1) * stride + kernel - length - padding, 0)


def positions(length: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    """Return the elements of each window: (count, kernel) indices along an axis.

    A position in the padding gets the index of the window's nearest element inside: a repeated element does not change
    a maximum.

    Raises:
        UsageError: a window of only padding.
    """
    start = np.arange(count)[:, None] * stride - padding
    first = start + np.maximum(-(start // dilation), 0) * dilation
    last = start + (length - 1 - start) // dilation * dilation
    if (first > np.minimum(last, start + dilation * (kernel - 1))).any():
        raise UsageError(f"a window of {kernel}, {dilation} apart, holds nothing but padding on an axis of {length}")
    return np.clip(start + np.arange(kernel) * dilation, first, last)


def adaptive_bounds(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of ``count`` windows that cover an axis: ⌊i·length/count⌋ and ⌈(i+1)·length/count⌉."""
    window = np.arange(count)
    return window * length // count, -(-(window + 1) * length // count)


def adaptive_sizes(output_size: Sequence[int | None], lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Return the requested size along each axis; None keeps the input's.

    Raises:
        UsageError: a size below 1.
    """
    sizes = tuple(length if size is None else size for size, length in zip(output_size, lengths, strict=True))
    if min(sizes) < 1:
        raise UsageError(f"output_size must be at least 1 along every axis, got {tuple(output_size)}")
    return sizes
