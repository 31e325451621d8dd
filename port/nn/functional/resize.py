"""Resizing as torch.nn.functional.interpolate does it, channels last.

`jax.image.resize` differs: its ``nearest`` takes the centre where torch's takes the lower edge, its ``cubic`` has a =
−0.5 where torch's has −0.75, it antialiases when it shrinks by default, and it has neither ``align_corners`` nor a
scale other than the ratio of the sizes.

Every mode is separable: along each axis, each element of the result is a weighted sum of a few input elements (taps).
Their indices and weights are computed at trace time, in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UnknownChoice, UsageError
from port.nn.functional.average_pooling import adaptive_avg_pool
from port.nn.functional.resize_taps import ANTIALIASED, METHODS, Axis


def interpolate(
    input: jax.Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    """(N, *spatial, C) → (N, *size, C). Source: torch.nn.functional.interpolate and ATen's ``upsample`` kernels.

    Args:
        input: (N, *spatial, C) with 1 to 3 spatial axes; a float dtype.
        size: of the result, for each spatial axis; one number applies to all.
        scale_factor: alternatively, the ratio of output size to input size; the size is rounded down, but coordinates
            use the exact factor.
        mode: ``"nearest"`` (the lower neighbour), ``"nearest-exact"`` (the nearer one), ``"linear"``,
            ``"bilinear"``, ``"trilinear"`` (the name goes with the number of axes), ``"bicubic"``, ``"lanczos"`` (with
            antialias only), ``"area"`` (an adaptive average pool).
        align_corners: align the centres of the corner elements; for linear modes and bicubic.
        recompute_scale_factor: compute coordinates from the rounded size instead.
        antialias: smooth before shrinking; for two spatial axes, bilinear and bicubic (there with a = −0.5) and
            lanczos.

    Raises:
        UnknownChoice: an unknown mode.
        UsageError: not exactly one of size and scale_factor, an option that the mode lacks, no batch axis.
    """
    spatial = input.ndim - 2
    _check(spatial, mode, align_corners, antialias)
    lengths = input.shape[1:-1]
    sizes, factors = _sizes(lengths, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise UsageError("recompute_scale_factor needs a scale_factor; with a size there is nothing to recompute")
    if min(sizes) < 1:
        raise UsageError(f"size must be at least 1 along every axis, got {sizes} from {lengths}")
    if mode == "area":
        return adaptive_avg_pool(input, sizes)
    # Coordinates and sums in the input's precision, or in float32, as in torch.
    x = input.astype(jnp.promote_types(input.dtype, jnp.float32))
    method = ANTIALIASED[mode] if antialias else METHODS[mode]
    for axis, (length, count, factor) in enumerate(zip(lengths, sizes, factors, strict=True), start=1):
        grid = Axis(length, count, None if recompute_scale_factor else factor, bool(align_corners), np.dtype(x.dtype))
        x = _apply(x, axis, *method(grid))
    return x.astype(input.dtype)


def _apply(x: jax.Array, axis: int, indices: np.ndarray, weights: np.ndarray) -> jax.Array:
    """Compute the weighted sums along one axis."""
    if indices.shape[1] == 1:
        return jnp.take(x, indices[:, 0], axis)
    along = jnp.asarray(weights, x.dtype).reshape(*weights.shape, *(1,) * (x.ndim - 1 - axis))
    return (jnp.take(x, indices, axis) * along).sum(axis + 1)


_AXES = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "lanczos": (2,)}
_ANY_AXES = ("nearest", "nearest-exact", "area")


def _check(spatial: int, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in (*_AXES, *_ANY_AXES):
        raise UnknownChoice("mode of interpolation", mode, (*_AXES, *_ANY_AXES))
    if spatial not in _AXES.get(mode, (1, 2, 3)):
        wanted = _AXES.get(mode, (1, 2, 3))
        raise UsageError(f"mode {mode!r} takes (N, *spatial, C) with {wanted} spatial axes, got {spatial}")
    if align_corners is not None and mode in _ANY_AXES:
        raise UsageError(f"mode {mode!r} has no align_corners; leave it out")
    if antialias and (mode not in ANTIALIASED or spatial != 2):
        raise UsageError(f"antialias goes with two spatial axes and {', '.join(ANTIALIASED)}, got {mode!r}")
    if mode == "lanczos" and (align_corners or not antialias):
        raise UsageError("mode 'lanczos' needs antialias=True, and has no align_corners")


def _sizes(
    lengths: tuple[int, ...], size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the result's size, and the factor for the coordinates, for each axis."""
    if (size is None) == (scale_factor is None):
        raise UsageError("interpolate takes either a size or a scale_factor")
    if size is not None:
        sizes = (size,) * len(lengths) if isinstance(size, int) else tuple(size)
        numbers: Sequence[object] = sizes
        factors: tuple[float | None, ...] = (None,) * len(lengths)
    else:
        assert scale_factor is not None
        kept = (scale_factor,) * len(lengths) if isinstance(scale_factor, int | float) else tuple(scale_factor)
        numbers = factors = kept
        sizes = tuple(math.floor(length * factor) for length, factor in zip(lengths, kept, strict=False))
    if len(numbers) != len(lengths):
        raise UsageError(f"size or scale_factor needs a number for each of {len(lengths)} spatial axes, got {numbers}")
    return sizes, factors
