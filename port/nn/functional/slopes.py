"""A gradient of one's own."""

from __future__ import annotations

from typing import Any

import jax


def sloped(y: jax.Array, x: jax.Array, slope: jax.Array) -> jax.Array:
    """y, whose gradient by x is ``slope`` besides what it has: dy + slope · dx.

    What ``torch.autograd.Function`` is used for: ``sloped(stop_gradient(jnp.sign(x)), x, jnp.abs(x) < 1)`` is a
    straight-through estimator, ``sloped(stop_gradient(x), x, -1)`` reverses a gradient.

    Args:
        y: of any shape.
        x: of y's shape.
        slope: of y's shape, or one that broadcasts to it; no gradient passes through it.
    """

    @jax.custom_jvp
    def value(y: jax.Array, x: jax.Array, slope: jax.Array) -> jax.Array:
        return y

    @value.defjvp
    def tangent(primals: Any, tangents: Any) -> Any:
        return primals[0], tangents[0] + primals[2] * tangents[1]

    return value(y, x, slope)
