"""Square matrices, systems of equations, statistics. Eigenvectors and singular vectors are in `decompositions`."""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair, of_one

_PRODUCT = ("G6",)


def _linalg(name: str, jax: str) -> OperatorPair:
    return OperatorPair(f"torch.linalg.{name}", f"aten.linalg_{name}", f"torch.linalg.{name}(A)", jax)


PAIRS: tuple[OperatorPair, ...] = (
    # %% Square matrices
    OperatorPair(
        "torch.linalg.det", "aten.linalg_det", "torch.linalg.det(A)", "jnp.linalg.det(A)", only_if="0 not in A.shape"
    ),
    _linalg("slogdet", "jnp.linalg.slogdet(A)"),
    of_one("logdet", "jnp.where(jnp.linalg.slogdet(input)[0] < 0, jnp.nan, jnp.linalg.slogdet(input)[1])"),
    _linalg("inv", "jnp.linalg.inv(A)"),
    _linalg("inv_ex", "(jnp.linalg.inv(A), jnp.zeros(A.shape[:-2], jnp.int32))"),
    OperatorPair("torch.pinverse", "aten.pinverse", "torch.pinverse(input)", "jnp.linalg.pinv(input)"),
    OperatorPair(
        "torch.cholesky_inverse",
        "aten.cholesky_inverse",
        "torch.cholesky_inverse(L, upper)",
        "jnp.linalg.inv(L.mT @ L if upper else L @ L.mT)",
        left_out={"upper": False},
    ),
    OperatorPair(
        "torch.cholesky_solve",
        "aten.cholesky_solve",
        "torch.cholesky_solve(B, L, upper)",
        "jax.scipy.linalg.cho_solve((L, not upper), B)",
        # torch's gradient is nonzero in the unused triangle of L.
        other_gradient="L.shape[-1] > 1",
        left_out={"upper": False},
        only_if="B.shape[:-2] == L.shape[:-2]",
        schema={"input2": "L"},
    ),
    OperatorPair(
        "torch.linalg.cholesky",
        "aten.linalg_cholesky",
        "torch.linalg.cholesky(A, upper=upper)",
        "jnp.linalg.cholesky(A, upper=upper)",
        left_out={"upper": False},
    ),
    OperatorPair(
        "torch.linalg.eigvalsh",
        "aten.linalg_eigvalsh",
        "torch.linalg.eigvalsh(A)",
        "jnp.linalg.eigvalsh(A, symmetrize_input=False)",
    ),
    OperatorPair(
        "torch.linalg.matrix_power",
        "aten.linalg_matrix_power",
        "torch.linalg.matrix_power(A, n)",
        "jnp.linalg.matrix_power(A, n)",
    ),
    of_one("matrix_exp", "jax.scipy.linalg.expm(input)", aten="aten.matrix_exp"),
    # %% Systems and decompositions
    OperatorPair(
        "torch.linalg.solve",
        "aten.linalg_solve",
        "torch.linalg.solve(A, B)",
        "jnp.linalg.solve(A, B)",
        # torch also accepts a batch of vectors, JAX does not.
        only_if="B.ndim == 1 or B.ndim == A.ndim",
    ),
    OperatorPair(
        "torch.linalg.solve_triangular",
        "aten.linalg_solve_triangular",
        "torch.linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)",
        "lax.linalg.triangular_solve(A, B, left_side=left, lower=not upper, unit_diagonal=unitriangular)",
        only_if="A.shape[:-2] == B.shape[:-2]",
        left_out={"left": True, "unitriangular": False},
    ),
    _linalg("svdvals", "jnp.linalg.svd(A, compute_uv=False)"),
    OperatorPair(
        "torch.linalg.vander",
        "aten.linalg_vander",
        "torch.linalg.vander(x, N=N)",
        "x[..., None] ** jnp.arange(x.shape[-1] if N is None else N)",
        only_if="x.ndim > 0",
        left_out={"N": None},
    ),
    OperatorPair(
        "torch.linalg.cond",
        "aten.linalg_cond",
        "torch.linalg.cond(A, p)",
        "jnp.linalg.cond(A, p)",
        left_out={"p": None},
    ),
    OperatorPair(
        "torch.linalg.tensorinv",
        "aten.linalg_tensorinv",
        "torch.linalg.tensorinv(A, ind)",
        "jnp.linalg.tensorinv(A, ind)",
        left_out={"ind": 2},
    ),
    OperatorPair(
        "torch.linalg.tensorsolve",
        "aten.linalg_tensorsolve",
        "torch.linalg.tensorsolve(A, B)",
        "jnp.linalg.tensorsolve(A, B)",
        schema={"other": "B"},
    ),
    OperatorPair(
        "torch.ops.aten.tensordot",
        "aten.tensordot",
        "torch.ops.aten.tensordot(input, other, dims_self, dims_other)",
        "jnp.tensordot(input, other, (dims_self, dims_other))",
        only_if="all(input.shape[i] == other.shape[j] for i, j in zip(dims_self, dims_other))",
        notes=_PRODUCT,
    ),
    OperatorPair(
        "torch.linalg.norm",
        "aten.linalg_norm",
        "torch.linalg.norm(A, ord, dim, keepdim)",
        "F.vector_norm(A, dim=dim, keepdim=keepdim)",
        left_out={"ord": None, "dim": None, "keepdim": False},
        only_if="ord is None",
        notes=("G3",),
    ),
    OperatorPair(
        "torch.linalg.norm",
        "aten.linalg_norm",
        "torch.linalg.norm(A, ord, dim, keepdim)",
        "jnp.linalg.norm(A, ord, dim, keepdim)",
        other_gradient="jnp.any(A == 0)",
        left_out={"ord": None, "dim": None, "keepdim": False},
        only_if="ord is not None",
        notes=("G3",),
    ),
    OperatorPair(
        "torch.linalg.matrix_rank",
        "aten.linalg_matrix_rank",
        "torch.linalg.matrix_rank(A)",
        "jnp.linalg.matrix_rank(A)",
        only_if="0 not in A.shape",
        schema={"input": "A"},
    ),
    OperatorPair(
        "torch.linalg.matrix_rank",
        "aten.linalg_matrix_rank",
        "torch.linalg.matrix_rank(A, atol=atol, rtol=rtol, hermitian=hermitian)",
        "F.matrix_rank(A, atol, rtol, hermitian)",
        left_out={"atol": None, "rtol": None, "hermitian": False},
        schema={"input": "A"},
    ),
    _linalg("pinv", "jnp.linalg.pinv(A)"),
    OperatorPair(
        "torch.linalg.multi_dot",
        "aten.linalg_multi_dot",
        "torch.linalg.multi_dot(tensors)",
        "jnp.linalg.multi_dot(tensors)",
        notes=_PRODUCT,
    ),
    # %% Statistics
    OperatorPair(
        "torch.cov",
        "aten.cov",
        "torch.cov(input, correction=correction)",
        "jnp.cov(input, ddof=correction)",
        left_out={"correction": 1},
        notes=("G4",),
    ),
)
