"""Eight-bit numbers, their scales, and the blocks that share a scale."""

from __future__ import annotations

from functools import cache
from math import prod

import ml_dtypes
import numpy as np

from port.errors import WeightsMismatch
from port.moves.move import Shape

QUANTISED = ("int8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
GROUPS = (16, 32, 64, 256, 512)
"""Usual numbers of elements that share a scale, beside 128."""
STEPS = 3
"""How many neighbours of a scale are tried on either side, since a division rounds."""


def values_of(weight: np.ndarray, wide: np.dtype) -> np.ndarray:
    """Widen eight-bit numbers to a wide dtype; by a lookup table, where a conversion takes longer."""
    if weight.dtype == np.int8:
        return weight.astype(wide)
    every = np.arange(256, dtype=np.uint8).view(weight.dtype).astype(wide)
    return every[weight.view(np.uint8)]


@cache
def mapped_to(stored: str) -> tuple[float, ...]:
    """The values that a block's largest element may have been mapped to, the most common first."""
    if stored == "int8":
        return tuple(map(float, (127, 128, *range(126, 0, -1))))
    every = np.arange(256, dtype=np.uint8).view(np.dtype(stored)).astype(np.float64)
    return tuple(sorted(every[np.isfinite(every) & (every > 0)].tolist(), reverse=True))


def near(scale: float, dtype: np.dtype) -> list[np.ndarray]:
    """A scale in its dtype, and its neighbours in that dtype."""
    if dtype == ml_dtypes.float8_e8m0fnu:  # powers of two
        power = np.ceil(np.log2(scale))
        return [np.asarray(2.0 ** (power + step)).astype(dtype) for step in (0, -1, 1)]
    first = np.asarray(scale).astype(dtype)
    found, below, above = [first], first, first
    for _ in range(STEPS):
        below = np.nextafter(below, np.asarray(-np.inf).astype(dtype))
        above = np.nextafter(above, np.asarray(np.inf).astype(dtype))
        found += [below, above]
    return found


def bits_of(array: np.ndarray) -> np.ndarray:
    """The bits of an array, with all NaNs mapped to the same bits."""
    same = np.where(np.isnan(array), np.asarray(np.nan).astype(array.dtype), array)
    return np.ascontiguousarray(same).reshape(-1).view(np.uint8)


def blocks_of(weight: Shape, scales: Shape, said: Shape | None = None) -> Shape:
    """Infer how many elements along each axis share a scale, from the shapes of a weight and its scales; 0: all.

    Args:
        weight: the weight's shape.
        scales: the scales' shape.
        said: the block sizes along the last axes, if they are known; otherwise they are 128, as in DeepSeek's
            checkpoints, or another of the usual sizes.

    Raises:
        WeightsMismatch: no block size fits these shapes.
    """
    grid = (1,) * len(weight) if prod(scales) == 1 else (*scales, *(1,) * (len(weight) - len(scales)))
    blocks = []
    for axis, (size, count) in enumerate(zip(weight, grid, strict=False)):
        known = said[axis - len(weight)] if said is not None and len(weight) - axis <= len(said) else None
        choices = [known] if known else [128, *GROUPS]
        if count == 1 and not (known and size > known):
            blocks.append(0)
        elif count == size:
            blocks.append(1)
        else:
            blocks.append(next((block for block in choices if -(-size // block) == count), -1))
    if len(grid) != len(weight) or -1 in blocks:
        raise WeightsMismatch(
            f"a weight of shape {weight} and scales of shape {scales}: neither one scale, one for each row, nor one "
            f"for each block of {' × '.join(map(str, said)) if said else '128'}"
        )
    return tuple(blocks)
