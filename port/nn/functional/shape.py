"""Splitting an axis; `jax.lax.collapse` joins several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import jax

from port.errors import UsageError


def unflatten(input: jax.Array, dim: int, unflattened_size: Sequence[int]) -> jax.Array:
    """Split axis ``dim`` into axes of ``unflattened_size``, one of which may be −1. Source: torch.nn.Unflatten.

    Raises:
        UsageError: sizes whose product is not the axis's length.
    """
    axis, sizes = range(input.ndim)[dim], tuple(unflattened_size)
    known = prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or (input.shape[axis] % known if -1 in sizes else input.shape[axis] != known):
        raise UsageError(f"axis {dim} of {input.shape} cannot be split into {sizes}: their product differs")
    sizes = tuple(input.shape[axis] // known if size == -1 else size for size in sizes)
    return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])
