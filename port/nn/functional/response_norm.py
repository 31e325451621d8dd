"""Local response normalisation, over neighbouring channels of the last axis."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError


def local_response_norm(
    input: jax.Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> jax.Array:
    """x / (k + alpha · mean of x² over ``size`` neighbouring channels)^beta. Source: torch.nn.LocalResponseNorm.

    The mean divides by ``size`` also where the window extends past the ends; an even window has one more channel before
    than after.

    Args:
        input: (…, C), any shape.
        size: channels in a window.
        alpha: factor of the mean.
        beta: exponent.
        k: added to the scaled mean.
    """
    ends = [(0, 0)] * (input.ndim - 1) + [(size // 2, (size - 1) // 2)]
    ones = (1,) * input.ndim
    sums = jax.lax.reduce_window(
        jnp.square(input), np.zeros((), input.dtype), jax.lax.add, (*ones[1:], size), ones, ends
    )
    return input / (k + alpha * (sums / size)) ** beta


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3, 4))
def cross_map_lrn(input: jax.Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> jax.Array:
    """torch.nn.CrossMapLRN2d with its two quirks: x / s^beta, s = k + alpha / size · sum of x² over nearby channels.

    Unlike in `local_response_norm`, the sum keeps the square of the first channel to the end, and the gradient sums
    over a window shifted by one channel. Both are kept, for models that were trained with them. Source:
    ``CrossMapLRN2d`` in torch/nn/modules/_functions.py.

    Args:
        input: (N, H, W, C).
        size: channels in a window, 2 or more; torch has no gradient for 1.
        alpha: factor of the sum, divided by ``size``.
        beta: exponent.
        k: added to the scaled sum.

    Raises:
        UsageError: an input without exactly four axes.
    """
    if input.ndim != 4:
        raise UsageError(f"CrossMapLRN2d takes (N, H, W, C), got shape {input.shape}")
    return input * _scale(input, size, alpha, k) ** -beta


@cross_map_lrn.defjvp
def _cross_map_lrn_jvp(
    size: int, alpha: float, beta: float, k: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    y, scale = cross_map_lrn(x, size, alpha, beta, k), _scale(x, size, alpha, k)
    # torch's backward adds to channel c the terms of channels j from c − before to c − before + size − 1.
    before = int(size - (size - 1) / 2)
    offset = np.subtract.outer(np.arange(x.shape[-1]), np.arange(x.shape[-1]))  # c − j
    window = jnp.asarray((offset <= before) & (offset > before - size), x.dtype)
    around = jnp.matmul(tangent * x, window, precision="highest")  # its transpose: over c
    return y, tangent * scale**-beta - 2 * alpha * beta / size * (y / scale) * around


def _scale(x: jax.Array, size: int, alpha: float, k: float) -> jax.Array:
    reach = int((size - 1) / 2 + 1)
    offset = np.subtract.outer(np.arange(x.shape[-1]), np.arange(x.shape[-1]))  # c − j
    window = (abs(offset) < reach) | (np.arange(x.shape[-1]) == 0)
    # (j, c)
    return k + alpha / size * jnp.matmul(jnp.square(x), jnp.asarray(window.T, x.dtype), precision="highest")
