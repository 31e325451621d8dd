"""Matrix decompositions.

The signs of singular vectors are arbitrary; on a CPU both libraries use LAPACK's. Those of eigenvectors differ, so
`eigh` has no pair.
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
    # Vectors that only complete the basis have no gradient in either library; torch has that of the others.
    OperatorPair(
        "torch.linalg.svd",
        "aten.linalg_svd",
        "torch.linalg.svd(A, full_matrices)",
        "F.full_svd(A)",
        only_if="full_matrices and A.shape[-2] != A.shape[-1]",
        left_out={"full_matrices": True},
    ),
    # The older torch.svd returns V, with the sizes of `full_matrices=False`.
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
