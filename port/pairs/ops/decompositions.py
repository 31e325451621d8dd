"""Decompositions of matrices into others.

The signs of singular vectors are free; on a CPU both libraries have LAPACK's. Those of eigenvectors are not the same:
`eigh` is not here.
"""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair

PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair(
        "torch.linalg.svd",
        "aten.linalg_svd",
        "torch.linalg.svd(A, full_matrices)",
        "jnp.linalg.svd(A, full_matrices)",
        only_if="not full_matrices or A.shape[-2] == A.shape[-1]",
        left_out={"full_matrices": True},
    ),
    # JAX has no gradient of what completes a basis; nor has torch, which has that of all else.
    OperatorPair(
        "torch.linalg.svd",
        "aten.linalg_svd",
        "torch.linalg.svd(A, full_matrices)",
        "F.full_svd(A)",
        only_if="full_matrices and A.shape[-2] != A.shape[-1]",
        left_out={"full_matrices": True},
    ),
    # The older one gives V, and has the sizes of `full_matrices=False`.
    OperatorPair(
        "torch.svd",
        "aten.svd",
        "torch.svd(input, some)",
        "F.svd(input, some)",
        left_out={"some": True},
    ),
    OperatorPair(
        "torch.linalg.qr",
        "aten.linalg_qr",
        "torch.linalg.qr(A, mode)",
        "jnp.linalg.qr(A, mode)",
        only_if='mode != "r"',
        left_out={"mode": "reduced"},
    ),
    OperatorPair(
        "torch.linalg.lu", "aten.linalg_lu", "torch.linalg.lu(A)", "jax.scipy.linalg.lu(A)", only_if="A.ndim == 2"
    ),
    OperatorPair(
        "torch.linalg.cholesky_ex",
        "aten.linalg_cholesky_ex",
        "torch.linalg.cholesky_ex(A, upper=upper)",
        "(jnp.linalg.cholesky(A, upper=upper), jnp.zeros(A.shape[:-2], jnp.int32))",
        left_out={"upper": False},
    ),
    OperatorPair(
        "torch.linalg.solve_ex",
        "aten.linalg_solve_ex",
        "torch.linalg.solve_ex(A, B)",
        "(jnp.linalg.solve(A, B), jnp.zeros(A.shape[:-2], jnp.int32))",
        only_if="B.ndim == 1 or B.ndim == A.ndim",
    ),
)
