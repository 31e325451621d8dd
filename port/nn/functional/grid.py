"""Sampling an image at given coordinates, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import jax
import jax.numpy as jnp

from port.errors import UnknownChoice, UsageError
from port.nn.functional.activation import hardtanh

Tap = tuple[jax.Array, jax.Array]
"""Indices along an axis, and the weights of the elements there."""

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    input: jax.Array,
    grid: jax.Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> jax.Array:
    """(N, *spatial, C) sampled at (N, *size, axes) → (N, *size, C). Source: torch.nn.functional.grid_sample.

    Args:
        input: (N, H, W, C) or (N, D, H, W, C).
        grid: coordinates, from −1 to 1 between the image's ends; the last axis holds (x, y) or (x, y, z), x along W.
        mode: ``"bilinear"``, ``"nearest"``, ``"bicubic"`` (for two axes).
        padding_mode: values beyond the ends: ``"zeros"``, ``"border"``, ``"reflection"``.
        align_corners: −1 and 1 are the centres of the outermost elements, not their edges.

    Raises:
        UnknownChoice: an unknown mode or padding.
        UsageError: the shapes of grid and input do not match.
    """
    if mode not in _MODES:
        raise UnknownChoice("mode of grid_sample", mode, _MODES)
    if padding_mode not in _PADDINGS:
        raise UnknownChoice("padding_mode of grid_sample", padding_mode, _PADDINGS)
    axes = grid.shape[-1]
    if input.ndim != axes + 2 or grid.ndim != axes + 2 or len(grid) != len(input) or (mode == "bicubic" and axes != 2):
        raise UsageError(f"grid_sample takes (N, *spatial, C) and (N, *size, axes), got {input.shape} and {grid.shape}")
    lengths = input.shape[1:-1]
    taps = [
        _taps(grid[..., axes - 1 - axis], length, mode, padding_mode, bool(align_corners))
        for axis, length in enumerate(lengths)
    ]
    image = jnp.arange(len(input)).reshape(-1, *(1,) * axes)
    total = jnp.zeros((*grid.shape[:-1], input.shape[-1]), input.dtype)
    for corner in product(*taps):
        inside = prod([(place >= 0) & (place < length) for (place, _), length in zip(corner, lengths, strict=True)])
        places = [jnp.clip(place, 0, length - 1) for (place, _), length in zip(corner, lengths, strict=True)]
        weight = jnp.where(inside, prod(weight for _, weight in corner), 0).astype(input.dtype)
        total += weight[..., None] * input[(image, *places)]
    return total


def affine_grid(theta: jax.Array, size: Sequence[int], align_corners: bool | None = None) -> jax.Array:
    """Build the grid of `grid_sample` for affine matrices (N, axes, axes + 1): (N, *size[2:], axes).

    Source: torch.nn.functional.affine_grid.

    Args:
        theta: for each image the matrix, and the shift in the last column.
        size: shape of the sampled image in torch's layout, (N, C, *spatial).
        align_corners: as in `grid_sample`.
    """
    spatial = tuple(size[2:])
    ends = [1 if align_corners else (length - 1) / length for length in spatial]
    lines = [jnp.linspace(-end, end, length, dtype=theta.dtype) for end, length in zip(ends, spatial, strict=True)]
    if align_corners:
        lines = [line if line.size > 1 else jnp.zeros_like(line) for line in lines]
    places = jnp.stack([*jnp.meshgrid(*lines, indexing="ij")][::-1], axis=-1)
    return jnp.einsum("...k,njk->n...j", places, theta[..., :-1]) + theta[:, *[None] * len(spatial), :, -1]


def _taps(grid: jax.Array, length: int, mode: str, padding_mode: str, align_corners: bool) -> list[Tap]:
    place = (grid + 1) / 2 * (length - 1) if align_corners else ((grid + 1) * length - 1) / 2
    if mode == "bicubic":
        low = jnp.floor(place)
        share = place - low
        weights = _far(share + 1), _near(share), _near(1 - share), _far(2 - share)
        beyond = (_moved_inside(low + step, length, padding_mode, align_corners) for step in (-1, 0, 1, 2))
        return [(_whole(place), weight) for place, weight in zip(beyond, weights, strict=True)]
    place = _moved_inside(place, length, padding_mode, align_corners)
    if mode == "nearest":
        return [(_whole(jnp.round(place)), jnp.ones_like(place))]
    low = jnp.floor(place)
    return [(_whole(low), low + 1 - place), (_whole(low + 1), place - low)]


def _whole(place: jax.Array) -> jax.Array:
    return jax.lax.stop_gradient(place).astype(int)


def _moved_inside(place: jax.Array, length: int, padding_mode: str, align_corners: bool) -> jax.Array:
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        first, span = (0.0, length - 1) if align_corners else (-0.5, length)
        if span == 0:
            return jnp.zeros_like(place)
        beyond = jnp.abs(place - first)
        rest = jnp.fmod(beyond, span)
        place = first + jnp.where(jnp.floor(beyond / span) % 2 == 0, rest, span - rest)
    return hardtanh(place, 0, length - 1)


# Keys' cubic with a = −0.75: for |x| ≤ 1, and for 1 < |x| < 2.
def _near(x: jax.Array) -> jax.Array:
    return (1.25 * x - 2.25) * x * x + 1


def _far(x: jax.Array) -> jax.Array:
    return ((-0.75 * x + 3.75) * x - 6) * x + 3
