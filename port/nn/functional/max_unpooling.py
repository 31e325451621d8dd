"""The partial inverse of max pooling, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp

from port.errors import UsageError
from port.nn.functional.windows import Sizes, each_axis, spatial_shape


def max_unpool(
    input: jax.Array,
    indices: jax.Array,
    output_size: Sequence[int] | None = None,
    *,
    kernel_size: Sequence[int],
    stride: Sizes | None = None,
    padding: Sizes = 0,
) -> jax.Array:
    """Put every value at its index, zeros elsewhere: (N, *spatial, C) → (N, *output_size, C).

    Where two values share an index, as with overlapping windows, either may be kept (they are equal if a max pooling
    made them), and both get the gradient, as in torch. An index beyond the output is dropped; torch raises. Source:
    torch.nn.MaxUnpool2d, ATen's ``max_unpool2d``.

    Args:
        input: (N, *spatial, C) or (*spatial, C).
        indices: where each value came from, in input's shape, as `max_pool` returns them.
        output_size: the spatial shape, or the whole shape, of the pooled array; several sizes pool to the same one.
        kernel_size: the window, a number for each spatial axis.
        stride: steps between windows; None is the kernel's size.
        padding: at both ends of each axis.

    Raises:
        UsageError: indices of a wrong shape, an output_size that does not pool to the input's.
    """
    spatial = len(kernel_size)
    lengths = spatial_shape(input, spatial)
    if indices.shape != input.shape:
        raise UsageError(f"max_unpool needs an index for each value: got {indices.shape} for {input.shape}")
    stride = each_axis(kernel_size if stride is None else stride, spatial, "stride")
    padding = each_axis(padding, spatial, "padding")
    usual = [(size - 1) * s + k - 2 * p for size, k, s, p in zip(lengths, kernel_size, stride, padding, strict=True)]
    wanted = list(usual if output_size is None else output_size)
    if len(wanted) == spatial + 2:
        wanted = wanted[1:-1]
    fits = len(wanted) == spatial and all(abs(w - u) < s for w, u, s in zip(wanted, usual, stride, strict=True))
    if not fits or min(wanted) < 0:
        raise UsageError(
            f"output_size {output_size} does not pool to {lengths}: it must be less than {stride} off {usual}"
        )

    return unpool(input, indices, wanted)


def unpool(input: jax.Array, indices: jax.Array, output_size: Sequence[int]) -> jax.Array:
    """`max_unpool` to a spatial shape that is known to fit."""
    *batch, channels = (*input.shape[: input.ndim - 1 - len(output_size)], input.shape[-1])
    flat = input.reshape(prod(batch), -1, channels), indices.reshape(prod(batch), -1, channels)
    return _scatter(*flat, prod(output_size)).reshape(*batch, *output_size, channels)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _scatter(values: jax.Array, indices: jax.Array, size: int) -> jax.Array:
    """(N, L, C) → (N, size, C)."""
    return _empty(values, size).at[_places(indices)].set(values, mode="drop")


@_scatter.defjvp
def _scatter_jvp(
    size: int, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (values, indices), (tangent, _) = primals, tangents
    # The transpose reads the gradient at each index, even where another value was kept: torch's backward.
    return _scatter(values, indices, size), _empty(values, size).at[_places(indices)].add(tangent, mode="drop")


def _empty(values: jax.Array, size: int) -> jax.Array:
    return jnp.zeros((values.shape[0], size, values.shape[2]), values.dtype)


def _places(indices: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    n, _, channels = indices.shape
    return jnp.arange(n)[:, None, None], indices, jnp.arange(channels)[None, None]
