"""PyTorch's parametrizations of orthogonal weights, which Flax lacks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UnknownChoice, UsageError
from port.nn.parametrized import Parametrized

MAPS = ("matrix_exp", "cayley", "householder")


class Orthogonal(Parametrized):
    """torch.nn.utils.parametrizations.orthogonal: the parameter's rows or columns are orthonormal.

    The original, as a tall matrix (n, k), gives Q with Qᵀ Q = 1: exp(A) or the Cayley map (1 + A/2)(1 − A/2)⁻¹, where A
    is the skew-symmetric matrix of its lower triangle; or a product of Householder reflections by its columns below the
    diagonal, with the diagonal's signs. Then Q is multiplied by ``base``. Formula:
    torch.nn.utils.parametrizations.orthogonal's source.

    Args:
        layer: any nnx module. Its parameter is the original: set it to torch's original.
        name: dotted path of the parameter in ``layer``.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``.
        use_trivialization: multiply by a ``base``, initially the identity.
        axes: the parameter's axes that are rows and columns of torch's matrix; all others are batch axes. torch's
            weight (out, in) is Flax's kernel (in, out): (−1, −2).

    Raises:
        UsageError: an unknown map, or a parameter with fewer than two axes.
    """

    def __init__(
        self,
        layer: nnx.Module,
        name: str = "kernel",
        *,
        orthogonal_map: str,
        use_trivialization: bool = True,
        axes: tuple[int, int] = (-1, -2),
    ) -> None:
        super().__init__(layer, name)
        if orthogonal_map not in MAPS:
            raise UnknownChoice("orthogonal map", orthogonal_map, MAPS)
        if self.original.ndim < 2:
            raise UsageError(f"an orthogonal parameter needs two axes: {name!r} has shape {self.original.shape}")
        self.orthogonal_map = orthogonal_map
        self.axes = axes
        self.base: Any = nnx.data(None)
        if use_trivialization:
            matrix = jnp.moveaxis(self.original[...], axes, (-2, -1))
            rows = max(matrix.shape[-2:])
            unit = jnp.eye(rows, dtype=matrix.dtype)
            self.base = nnx.BatchStat(jnp.broadcast_to(unit, (*matrix.shape[:-2], rows, rows)))

    def computed(self) -> jax.Array:
        matrix = jnp.moveaxis(self.original[...], self.axes, (-2, -1))
        wide = matrix.shape[-2] < matrix.shape[-1]
        q = _orthogonal(matrix.mT if wide else matrix, self.orthogonal_map)
        if self.base is not None:
            q = self.base[...] @ q
        return jnp.moveaxis(q.mT if wide else q, (-2, -1), self.axes)


def _orthogonal(tall: jax.Array, orthogonal_map: str) -> jax.Array:
    """(…, n, k) with n ≥ k → (…, n, k) with orthonormal columns."""
    n, k = tall.shape[-2:]
    if orthogonal_map == "householder":
        return _reflections(jnp.tril(tall, -1)) * jnp.trunc(
            jax.lax.stop_gradient(jnp.diagonal(tall, axis1=-2, axis2=-1))[..., None, :]
        )
    lower = jnp.pad(jnp.tril(tall), [(0, 0)] * (tall.ndim - 1) + [(0, n - k)])
    skew = lower - lower.mT
    if orthogonal_map == "matrix_exp":
        q = jax.scipy.linalg.expm(skew)
    else:
        unit = jnp.eye(n, dtype=skew.dtype)
        q = jnp.linalg.solve(unit - skew / 2, unit + skew / 2)
    return q[..., :k]


def _reflections(below: jax.Array) -> jax.Array:
    """H₁ H₂ … Hₖ (…, n, k), Hᵢ the reflection 1 − 2 v vᵀ / vᵀ v by column i with a 1 on the diagonal."""
    n, k = below.shape[-2:]
    vectors = below + jnp.eye(n, k, dtype=below.dtype)
    product = jnp.broadcast_to(jnp.eye(n, k, dtype=below.dtype), below.shape)
    for column in reversed(range(k)):
        v = vectors[..., column, None]
        product = product - v @ (2 / jnp.square(v).sum(-2, keepdims=True) * (v.mT @ product))
    return product
