"""Products and norms. Functions of square matrices are in `linear_algebra`."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Axes, Over, Product
from port.pairs.ops.operator_pair import OperatorPair, of_two

_PRODUCT = ("G6",)
_SCALED = {"beta": 1, "alpha": 1}


def _added(name: str, first: str, second: str, product: str, axes: Axes | None = None) -> tuple[OperatorPair, ...]:
    """Pair ``torch.addmm`` and its variants: ``input`` plus a product, both scaled."""
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
        # With beta 0 torch ignores input, even NaN.
        for added, only_if in (("beta * input + ", "beta != 0"), ("", "beta == 0"))
    )


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
        schema={"tensors": "operands", "path": ""},  # the order of the products
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
    # %% Norms: at a zero vector JAX's gradient is NaN, torch's 0
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
)
