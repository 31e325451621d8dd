"""Where the windows of a pooling lie: sizes and positions, known before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from port.errors import UsageError

Sizes = int | Sequence[int]


def each_axis(sizes: Sizes, spatial: int, name: str) -> tuple[int, ...]:
    """One number for each spatial axis; a single one is meant for every axis, as in torch.

    Raises:
        UsageError: another number of them.
    """
    given = (sizes,) if isinstance(sizes, int | np.integer) else tuple(sizes)
    if len(given) == 1:
        given *= spatial
    if len(given) != spatial:
        raise UsageError(f"{name} has a number for each of {spatial} spatial axes, or one for all, got {sizes!r}")
    return tuple(int(size) for size in given)


def spatial_shape(input: jax.Array, spatial: int) -> tuple[int, ...]:
    """The lengths of the spatial axes of (N, *spatial, C) or (*spatial, C).

    Raises:
        UsageError: an input with more or fewer axes.
    """
    if input.ndim not in (spatial + 1, spatial + 2):
        raise UsageError(
            f"{spatial} spatial axes need an input of {spatial + 1} axes, (*spatial, C), or {spatial + 2}, "
            f"(N, *spatial, C), got shape {input.shape}"
        )
    return input.shape[-spatial - 1 : -1]


def windows_along(length: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """How many windows there are along an axis. Source: ATen's ``pooling_output_shape``.

    ``ceil`` keeps a last window that sticks out, unless it begins past the input and its left padding.

    Raises:
        UsageError: none.
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
    """Padding before and after an axis such that ``count`` windows fit, of which the last may stick out."""
    return padding, max((count - 1) * stride + kernel - length - padding, 0)


def positions(length: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> np.ndarray:
    """Which elements each window holds: (count, kernel) indices along an axis.

    A place in the padding is given by the window's nearest element inside: another copy of it changes no maximum.

    Raises:
        UsageError: a window that holds padding only.
    """
    start = np.arange(count)[:, None] * stride - padding
    first = start + np.maximum(-(start // dilation), 0) * dilation
    last = start + (length - 1 - start) // dilation * dilation
    if (first > np.minimum(last, start + dilation * (kernel - 1))).any():
        raise UsageError(f"a window of {kernel}, {dilation} apart, holds nothing but padding on an axis of {length}")
    return np.clip(start + np.arange(kernel) * dilation, first, last)


def adaptive_bounds(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of ``count`` windows that cover an axis: ⌊i·length/count⌋ and ⌈(i+1)·length/count⌉."""
    window = np.arange(count)
    return window * length // count, -(-(window + 1) * length // count)


def adaptive_sizes(output_size: Sequence[int | None], lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The size asked for along each axis; None keeps the input's.

    Raises:
        UsageError: a size below 1.
    """
    sizes = tuple(length if size is None else size for size, length in zip(output_size, lengths, strict=True))
    if min(sizes) < 1:
        raise UsageError(f"output_size is at least 1 along every axis, got {tuple(output_size)}")
    return sizes
