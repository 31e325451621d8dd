"""Products, and linear algebra. Eigenvectors and singular vectors are in `decompositions`."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Axes, Over, Product
from port.pairs.ops.operator_pair import OperatorPair, of_one, of_two

_PRODUCT = ("G6",)
_SCALED = {"beta": 1, "alpha": 1}


def _added(name: str, first: str, second: str, product: str, axes: Axes | None = None) -> tuple[OperatorPair, ...]:
    """``torch.addmm`` and its like: a product added to ``input``, each times a number."""
    return tuple(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, {first}, {second}, beta=beta, alpha=alpha)",
            f"{added}alpha * {product}",
            only_if=only_if,
            left_out=_SCALED,
            notes=_PRODUCT,
            axes=axes,
        )
        # Times 0, torch does not look at input, were it NaN.
        for added, only_if in (("beta * input + ", "beta != 0"), ("", "beta == 0"))
    )


def _linalg(name: str, jax: str) -> OperatorPair:
    return OperatorPair(f"torch.linalg.{name}", f"aten.linalg_{name}", f"torch.linalg.{name}(A)", jax)


PAIRS: tuple[OperatorPair, ...] = (
    of_two("matmul", "input @ other", notes=_PRODUCT, axes=Product(("other",))),
    OperatorPair(
        "torch.mm", "aten.mm", "torch.mm(input, mat2)", "input @ mat2", notes=_PRODUCT, axes=Product(("mat2",))
    ),
    OperatorPair("torch.bmm", "aten.bmm", "torch.bmm(input, mat2)", "input @ mat2", notes=_PRODUCT),
    OperatorPair("torch.mv", "aten.mv", "torch.mv(input, vec)", "input @ vec", notes=_PRODUCT),
    OperatorPair("torch.dot", "aten.dot", "torch.dot(input, tensor)", "jnp.dot(input, tensor)", notes=_PRODUCT),
    of_two("vdot", "jnp.vdot(input, other)", notes=_PRODUCT),
    of_two("inner", "jnp.inner(input, other)", notes=_PRODUCT),
    OperatorPair("torch.outer", "aten.outer", "torch.outer(input, vec2)", "jnp.outer(input, vec2)"),
    of_two("kron", "jnp.kron(input, other)"),
    *_added("addmm", "mat1", "mat2", "(mat1 @ mat2)", Product(("mat2",))),
    *_added("addmv", "mat", "vec", "(mat @ vec)"),
    *_added("baddbmm", "batch1", "batch2", "(batch1 @ batch2)"),
    *_added("addbmm", "batch1", "batch2", 'jnp.einsum("bij,bjk->ik", batch1, batch2)'),
    *_added("addr", "vec1", "vec2", "jnp.outer(vec1, vec2)"),
    OperatorPair(
        "torch.einsum",
        "aten.einsum",
        "torch.einsum(equation, *operands)",
        "jnp.einsum(equation, *operands)",
        notes=_PRODUCT,
        schema={"tensors": "operands", "path": ""},  # in what order the products are taken
    ),
    OperatorPair(
        "torch.tensordot",
        "aten.tensordot",
        "torch.tensordot(a, b, dims)",
        "jnp.tensordot(a, b, dims)",
        only_if="isinstance(dims, int)",
        left_out={"dims": 2},
        notes=_PRODUCT,
    ),
    OperatorPair(
        "torch.linalg.vecdot",
        "aten.linalg_vecdot",
        "torch.linalg.vecdot(x, y, dim=dim)",
        "jnp.vecdot(x, y, axis=dim)",
        left_out={"dim": -1},
        notes=_PRODUCT,
        axes=Over("dim"),
    ),
    OperatorPair(
        "torch.linalg.cross",
        "aten.linalg_cross",
        "torch.linalg.cross(input, other, dim=dim)",
        "jnp.cross(input, other, axis=dim)",
        left_out={"dim": -1},
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.cross",
        "aten.cross",
        "torch.cross(input, other, dim)",
        "jnp.cross(input, other, axis=dim)",
        only_if="dim is not None and input.ndim == other.ndim",
        left_out={"dim": None},
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.nn.functional.bilinear",
        "aten.bilinear",
        "torch.nn.functional.bilinear(input1, input2, weight)",
        'jnp.einsum("...i,oij,...j->...o", input1, weight, input2)',
        notes=_PRODUCT,
    ),
    OperatorPair(
        "torch.nn.functional.bilinear",
        "aten.bilinear",
        "torch.nn.functional.bilinear(input1, input2, weight, bias)",
        'jnp.einsum("...i,oij,...j->...o", input1, weight, input2) + bias',
        only_if="bias is not None",
        notes=_PRODUCT,
    ),
    OperatorPair(
        "torch.cdist",
        "aten.cdist",
        "torch.cdist(x1, x2, p)",
        "F.pairwise_distance(x1[..., :, None, :], x2[..., None, :, :], p, 0)",
        left_out={"p": 2.0},
        schema={"compute_mode": ""},
        notes=("G3",),
    ),
    OperatorPair(
        "torch.dist",
        "aten.dist",
        "torch.dist(input, other, p)",
        "F.pairwise_distance(*(x.ravel() for x in jnp.broadcast_arrays(input, other)), p, 0)",
        left_out={"p": 2},
        axes=Over(None),
        notes=("G3",),
    ),
    # %% Norms: of a vector of zeros JAX's gradient is NaN, torch's 0
    OperatorPair(
        "torch.linalg.vector_norm",
        "aten.linalg_vector_norm",
        "torch.linalg.vector_norm(x, ord, dim, keepdim=keepdim)",
        "F.vector_norm(x, ord=ord, dim=dim, keepdim=keepdim)",
        left_out={"ord": 2, "dim": None, "keepdim": False},
        notes=("G3",),
        axes=Over("dim", "keepdim"),
    ),
    OperatorPair(
        "torch.linalg.vector_norm",
        "aten.linalg_vector_norm",
        "torch.linalg.vector_norm(x, ord, dim, keepdim=keepdim, dtype=dtype)",
        "F.vector_norm(x.astype(dtype), ord=ord, dim=dim, keepdim=keepdim)",
        left_out={"ord": 2, "dim": None, "keepdim": False},
        only_if="dtype is not None",
        notes=("G3",),
        axes=Over("dim", "keepdim"),
    ),
    OperatorPair(
        "torch.linalg.matrix_norm",
        "aten.linalg_matrix_norm",
        "torch.linalg.matrix_norm(A, ord, dim, keepdim)",
        "F.vector_norm(A, dim=dim, keepdim=keepdim)",
        left_out={"ord": "fro", "dim": (-2, -1), "keepdim": False},
        only_if='ord == "fro"',
        notes=("G3",),
        axes=Over("dim", "keepdim"),
    ),
    OperatorPair(
        "torch.linalg.matrix_norm",
        "aten.linalg_matrix_norm",
        "torch.linalg.matrix_norm(A, ord, dim, keepdim)",
        "jnp.linalg.norm(A, ord=ord, axis=dim, keepdims=keepdim)",
        other_gradient="jnp.any(A == 0)",
        left_out={"ord": "fro", "dim": (-2, -1), "keepdim": False},
        only_if='ord != "fro"',
        notes=("G3",),
        axes=Over("dim", "keepdim"),
    ),
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
        # torch's gradient is not zero in the half of L that is not read.
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
        # torch takes a stack of vectors as well, JAX does not.
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
