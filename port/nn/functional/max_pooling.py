"""Max pooling with all of torch's options, channels last: (N, *spatial, C) or (*spatial, C).

`flax.nnx.max_pool` is the same without ``ceil_mode``, ``dilation`` and ``return_indices``; Flax lacks the others. As in
Flax, the length of ``kernel_size`` is the number of spatial axes, so one function serves as torch's 1d, 2d and 3d.
Among equal maxima the first gets the gradient and gives the index. An index counts along the flattened spatial axes of
its channel, as in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.nn.functional.windows import (
    Sizes,
    adaptive_bounds,
    adaptive_sizes,
    each_axis,
    pads,
    positions,
    spatial_shape,
    windows_along,
)

Pooled = jax.Array | tuple[jax.Array, jax.Array]
Places = TypeVar("Places", np.ndarray, jax.Array)


def max_pool(
    input: jax.Array,
    kernel_size: Sequence[int],
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pooled:
    """The largest element of each window. Source: torch.nn.MaxPool2d's documentation, ATen's ``max_pool2d``.

    Args:
        input: (N, *spatial, C) or (*spatial, C).
        kernel_size: the window, a number for each spatial axis.
        stride: steps between windows; None is the kernel's size.
        padding: −∞ at both ends of each axis, at most half of the window's span.
        dilation: steps between the elements of a window.
        ceil_mode: keep a last window that extends past the end.
        return_indices: return (values, indices).

    Raises:
        UsageError: sizes that do not fit the input, too much padding.
    """
    spatial = len(kernel_size)
    lengths = spatial_shape(input, spatial)
    kernel = each_axis(kernel_size, spatial, "kernel_size")
    stride = each_axis(kernel if stride is None else stride, spatial, "stride")
    padding = each_axis(padding, spatial, "padding")
    dilation = each_axis(dilation, spatial, "dilation")
    axes = list(zip(lengths, kernel, stride, padding, dilation, strict=True))
    if any(2 * pad > apart * (size - 1) + 1 for _, size, _, pad, apart in axes):
        raise UsageError(f"padding must be at most half the window: got padding {padding}, kernel_size {kernel}")
    counts = [windows_along(*axis, ceil=ceil_mode) for axis in axes]
    if return_indices or max(dilation) > 1:
        places = [positions(size, n, *options) for (size, *options), n in zip(axes, counts, strict=True)]
        return _largest(input, _flat(places, lengths)[None, :, :, None], counts, return_indices)

    lead = input.ndim - spatial - 1
    least = -jnp.inf if jnp.issubdtype(input.dtype, jnp.floating) else jnp.iinfo(input.dtype).min
    return jax.lax.reduce_window(
        input,
        np.asarray(least, input.dtype),
        jax.lax.max,
        (1,) * lead + (*kernel, 1),
        (1,) * lead + (*stride, 1),
        [(0, 0)] * lead
        + [pads(size, n, k, s, p) for (size, k, s, p, _), n in zip(axes, counts, strict=True)]
        + [(0, 0)],
    )


def adaptive_max_pool(input: jax.Array, output_size: Sequence[int | None], return_indices: bool = False) -> Pooled:
    """The largest element of windows that cover the input and may overlap: (N, *spatial, C) → (N, *output_size, C).

    Args:
        input: (N, *spatial, C) or (*spatial, C).
        output_size: windows along each spatial axis, from ⌊i·length/n⌋ to ⌈(i+1)·length/n⌉; None keeps the axis.
            Source: torch.nn.AdaptiveMaxPool2d, ATen's ``adaptive_max_pool2d``.
        return_indices: return (values, indices).

    Raises:
        UsageError: sizes that do not fit the input.
    """
    lengths = spatial_shape(input, len(output_size))
    counts = adaptive_sizes(output_size, lengths)
    places = []
    for length, count in zip(lengths, counts, strict=True):
        begin, end = adaptive_bounds(length, count)
        # A shorter window repeats its last element, which does not change the maximum.
        places.append(np.minimum(begin[:, None] + np.arange((end - begin).max()), end[:, None] - 1))
    return _largest(input, _flat(places, lengths)[None, :, :, None], counts, return_indices)


def fractional_max_pool(
    input: jax.Array,
    kernel_size: Sequence[int],
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    *,
    random_samples: jax.Array,
) -> Pooled:
    """Take the largest element of randomly placed windows.

    Source: Graham, "Fractional max-pooling", 2014, as in ATen's ``fractional_max_pool2d`` and
    ``fractional_max_pool3d``, which assign the samples to the axes in different orders.

    Args:
        input: (N, *spatial, C) or (*spatial, C), with 2 or 3 spatial axes.
        kernel_size: the window, a number for each spatial axis.
        output_size: windows along each spatial axis.
        output_ratio: alternatively, ``output_size`` as a fraction of the input's length.
        return_indices: return (values, indices).
        random_samples: (N, C, spatial axes) in [0, 1): the positions of each channel's windows; torch's
            ``_random_samples``. More than N samples are ignored. With two spatial axes the samples are ordered W, H;
            with three D, H, W.

    Raises:
        UsageError: not exactly one of size and ratio; sizes or samples that do not fit the input.
    """
    spatial = len(kernel_size)
    lengths = spatial_shape(input, spatial)
    if (output_size is None) == (output_ratio is None):
        raise UsageError("fractional_max_pool takes either an output_size or an output_ratio")
    if output_size is None:
        ratios = (output_ratio,) * spatial if isinstance(output_ratio, float | int) else tuple(output_ratio or ())
        counts = tuple(int(length * ratio) for length, ratio in zip(lengths, ratios, strict=True))
    else:
        counts = each_axis(output_size, spatial, "output_size")
    if any(n < 1 or n + k - 1 > size for n, k, size in zip(counts, kernel_size, lengths, strict=True)):
        raise UsageError(f"{counts} windows of {tuple(kernel_size)} do not fit into {lengths}")
    batch = input.shape[0] if input.ndim == spatial + 2 else 1
    if len(random_samples) < batch or random_samples.shape[1:] != (input.shape[-1], spatial):
        raise UsageError(
            f"random_samples needs the shape {(batch, input.shape[-1], spatial)}, (N, C, spatial axes), "
            f"got {random_samples.shape}"
        )
    samples = random_samples[:batch, :, :: -1 if spatial == 2 else 1].astype(input.dtype)
    places = [
        _fractional_starts(samples[..., axis], length, count, kernel)[..., None] + np.arange(kernel)
        for axis, (length, count, kernel) in enumerate(zip(lengths, counts, kernel_size, strict=True))
    ]  # (N, C, count, kernel) for each axis
    return _largest(input, jnp.moveaxis(_flat(places, lengths), 1, -1), counts, return_indices)


def _fractional_starts(sample: jax.Array, length: int, count: int, kernel: int) -> jax.Array:
    """(N, C) samples → (N, C, count) starts of windows; the last window ends with the axis."""
    if count == 1:
        return jnp.full((*sample.shape, 1), length - kernel)
    step = jnp.asarray((length - kernel) / (count - 1), sample.dtype)
    window = np.arange(count - 1, dtype=np.float64).astype(sample.dtype)
    # torch's int() truncates towards zero; no value here is negative.
    starts = ((window + sample[..., None]) * step).astype(int) - (sample * step).astype(int)[..., None]
    return jnp.concatenate([starts, jnp.full((*sample.shape, 1), length - kernel)], axis=-1)


def _flat(places: Sequence[Places], lengths: Sequence[int]) -> Places:
    """Combine (…, windows, kernel) indices of each axis → (…, all windows, all elements) of the flattened axes."""

    def join(outer: tuple[Places, int], inner: tuple[Places, int]) -> tuple[Places, int]:
        (high, _), (low, length) = outer, inner
        both = high[..., :, None, :, None] * length + low[..., None, :, None, :]
        *lead, n, m, k, j = both.shape
        return both.reshape(*lead, n * m, k * j), length

    return reduce(join, zip(places, lengths, strict=True))[0]


def _largest(input: jax.Array, places: np.ndarray | jax.Array, counts: Sequence[int], with_indices: bool) -> Pooled:
    """Take the first largest element at (N or 1, windows, elements, C or 1) indices of the flattened input."""
    *batch, channels = (*input.shape[: input.ndim - 1 - len(counts)], input.shape[-1])
    flat = input.reshape(prod(batch), -1, channels)
    n, windows, elements, c = places.shape
    held = jnp.take_along_axis(jax.lax.stop_gradient(flat), places.reshape(n, windows * elements, c), axis=1)
    first = held.reshape(len(flat), windows, elements, channels).argmax(axis=2, keepdims=True)
    indices = jnp.take_along_axis(jnp.asarray(places), first, axis=2)[:, :, 0]  # (N, windows, C)
    values = jnp.take_along_axis(flat, indices, axis=1).reshape(*batch, *counts, channels)
    return (values, indices.reshape(values.shape)) if with_indices else values
