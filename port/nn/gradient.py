"""Functions that change a gradient and not the value."""

from __future__ import annotations

import jax


@jax.custom_jvp
def scale_gradient(x: jax.Array, factor: jax.Array) -> jax.Array:
    """Return ``x``, with its gradient multiplied by ``factor``, whose shape broadcasts to x's."""
    return x


@scale_gradient.defjvp
def _scale_gradient_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x, factor), (tangent, _) = primals, tangents
    return x, tangent * factor.astype(tangent.dtype)
