"""Decompositions of matrices in the forms that torch's older functions have."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def svd(x: jax.Array, some: bool = True) -> tuple[jax.Array, jax.Array, jax.Array]:
    """U, S and V of x = U diag(S) Vᴴ; `jnp.linalg.svd` gives Vᴴ. Source: torch.svd.

    Args:
        x: (…, m, n).
        some: U is (…, m, k) and V (…, n, k) with k = min(m, n); else both are square.
    """
    u, s, vh = jnp.linalg.svd(x, full_matrices=not some)
    return u, s, vh.mT.conj()
