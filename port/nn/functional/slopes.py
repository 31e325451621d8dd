"""Custom gradients."""

from __future__ import annotations

from typing import Any

import jax


def sloped(y: jax.Array, x: jax.Array, slope: jax.Array) -> jax.Array:
    """Return y with an extra gradient with respect to x: dy + slope · dx.

    It covers common uses of ``torch.autograd.Function``: ``sloped(stop_gradient(jnp.sign(x)), x, jnp.abs(x) < 1)`` is a
    straight-through estimator, ``sloped(stop_gradient(x), x, -1)`` reverses a gradient.

    Args:
        y: of any shape.
        x: of y's shape.
        slope: of y's shape, or one that broadcasts to it; not differentiated.
    """

    @jax.custom_jvp
    def value(y: jax.Array, x: jax.Array, slope: jax.Array) -> jax.Array:
        return y

    @value.defjvp
    def tangent(primals: Any, tangents: Any) -> Any:
        return primals[0], tangents[0] + primals[2] * tangents[1]

    return value(y, x, slope)
