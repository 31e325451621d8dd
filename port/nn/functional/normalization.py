"""Normalisation by the input's own statistics, channels last. Scales and shifts are optional.

`jax.nn.standardize` computes the variance as E[x²] − E[x]², torch in two passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from port.errors import UsageError


def batch_norm(
    input: jax.Array, weight: jax.Array | None = None, bias: jax.Array | None = None, eps: float = 1e-5
) -> jax.Array:
    """Normalise each channel of (N, *spatial, C) by its mean and variance, as torch's ``batch_norm`` in training."""
    return _scaled(_standardized(input, tuple(range(input.ndim - 1)), eps), weight, bias)


def instance_norm(
    input: jax.Array, weight: jax.Array | None = None, bias: jax.Array | None = None, eps: float = 1e-5
) -> jax.Array:
    """Normalise each channel of each image (N, *spatial, C). Source: torch.nn.InstanceNorm2d, no running statistics."""
    return _scaled(_standardized(input, tuple(range(1, input.ndim - 1)), eps), weight, bias)


def group_norm(
    input: jax.Array,
    num_groups: int,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    eps: float = 1e-5,
) -> jax.Array:
    """Normalise each group of channels of each image (N, *spatial, C). Source: torch.nn.GroupNorm.

    Raises:
        UsageError: channels that the groups do not divide.
    """
    channels = input.shape[-1]
    if num_groups < 1 or channels % num_groups:
        raise UsageError(f"group_norm needs channels divisible by groups: got {channels} and {num_groups}")
    blocks = input.reshape(*input.shape[:-1], num_groups, channels // num_groups)
    axes = (*range(1, blocks.ndim - 2), -1)
    return _scaled(_standardized(blocks, axes, eps).reshape(input.shape), weight, bias)


def layer_norm(
    input: jax.Array,
    normalized_shape: Sequence[int],
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    eps: float = 1e-5,
) -> jax.Array:
    """Normalise over the last axes, of ``normalized_shape``, as are weight and bias. Source: torch.nn.LayerNorm.

    Raises:
        UsageError: the input does not end in ``normalized_shape``.
    """
    last = len(normalized_shape)
    if not last or input.shape[-last:] != tuple(normalized_shape):
        raise UsageError(
            f"layer_norm over {tuple(normalized_shape)} takes (…, *{tuple(normalized_shape)}), got {input.shape}"
        )
    return _scaled(_standardized(input, tuple(range(-last, 0)), eps), weight, bias)


def _standardized(x: jax.Array, axes: tuple[int, ...], eps: float) -> jax.Array:
    """Subtract the mean and divide by the deviation, in float32 at least, as in torch."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - wide.mean(axes, keepdims=True)
    return (centred * jax.lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + eps)).astype(x.dtype)


def _scaled(x: jax.Array, weight: jax.Array | None, bias: jax.Array | None) -> jax.Array:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
