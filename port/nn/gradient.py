"""What changes a gradient and leaves the value alone."""

from __future__ import annotations

import jax


@jax.custom_jvp
def scale_gradient(x: jax.Array, factor: jax.Array) -> jax.Array:
    """``x`` itself; its gradient is multiplied by ``factor``, of a shape that broadcasts to x's."""
    return x


@scale_gradient.defjvp
def _scale_gradient_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x, factor), (tangent, _) = primals, tangents
    return x, tangent * factor.astype(tangent.dtype)
