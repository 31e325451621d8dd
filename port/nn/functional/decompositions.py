"""Matrix decompositions in forms of torch that JAX lacks or does not differentiate."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

SVD = tuple[jax.Array, jax.Array, jax.Array]


def svd(x: jax.Array, some: bool = True) -> SVD:
    """Return U, S and V of x = U diag(S) Vᴴ; `jnp.linalg.svd` returns Vᴴ. Source: torch.svd.

    Args:
        x: (…, m, n).
        some: U is (…, m, k) and V (…, n, k) with k = min(m, n); else both are square.
    """
    u, s, vh = _thin(x) if some else full_svd(x)
    return u, s, vh.mT.conj()


@jax.custom_jvp
def full_svd(x: jax.Array) -> SVD:
    """Return U, S and Vᴴ of x = U diag(S) Vᴴ, U and V square; `jnp.linalg.svd` cannot differentiate these.

    The first k = min(m, n) singular vectors have a gradient. The others complete the basis arbitrarily, and have none.
    Source: torch.linalg.svd.

    Args:
        x: (…, m, n).
    """
    u, s, vh = jnp.linalg.svd(x, full_matrices=True)
    return u, s, vh


@full_svd.defjvp
def _full_svd_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[SVD, SVD]:
    u, s, vh = full_svd(*primals)
    k = s.shape[-1]
    (thin, _, _), (thin_dot, s_dot, vh_dot) = jax.jvp(_thin, primals, tangents)
    # Singular vectors are unique up to a sign or phase, in which the two decompositions may differ.
    phase = jnp.sum(thin.conj() * u[..., :, :k], axis=-2)
    u_dot = jnp.zeros_like(u).at[..., :, :k].set(thin_dot * phase[..., None, :])
    vh_dot = jnp.zeros_like(vh).at[..., :k, :].set(vh_dot * phase.conj()[..., :, None])
    return (u, s, vh), (u_dot, s_dot, vh_dot)


def matrix_rank(
    x: jax.Array, atol: float | jax.Array | None = None, rtol: float | jax.Array | None = None, hermitian: bool = False
) -> jax.Array:
    """Count the singular values above the larger of ``atol`` and ``rtol`` times the largest one.

    `jnp.linalg.matrix_rank` takes no ``atol``, no Hermitian matrices, and no empty ones. Source:
    torch.linalg.matrix_rank.

    Args:
        x: (…, m, n).
        atol: a number, or one for each matrix; 0 if None.
        rtol: likewise; if None, the machine epsilon times the longer side, or 0 with a positive atol.
        hermitian: use the magnitudes of the eigenvalues of the lower triangles instead.
    """
    if hermitian:
        values = jnp.abs(jnp.linalg.eigvalsh(x, symmetrize_input=False))
    else:
        values = jnp.linalg.svd(x, compute_uv=False)
    if rtol is None:
        least = float(jnp.finfo(x.dtype).eps) * max(x.shape[-2:])
        rtol = least if atol is None else jnp.where(jnp.asarray(atol) > 0, 0.0, least)
    limit = jnp.maximum(0.0 if atol is None else atol, rtol * values.max(-1, initial=0.0))
    return jnp.sum(values > limit[..., None], axis=-1)


def _thin(x: jax.Array) -> Any:
    return tuple(jnp.linalg.svd(x, full_matrices=False))
