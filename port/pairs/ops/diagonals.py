"""Diagonals of matrices, matrices of diagonals, and triangles."""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair

PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair(
        "torch.diag_embed",
        "aten.diag_embed",
        "torch.diag_embed(input)",
        "jnp.where(jnp.eye(input.shape[-1], dtype=bool), input[..., None], input.dtype.type(0))",
    ),
    OperatorPair(
        "torch.diagonal",
        "aten.diagonal",
        "torch.diagonal(input, offset, dim1, dim2)",
        "jnp.diagonal(input, offset, dim1, dim2)",
        left_out={"offset": 0, "dim1": 0, "dim2": 1},
    ),
    OperatorPair(
        "torch.diag", "aten.diag", "torch.diag(input, diagonal)", "jnp.diag(input, diagonal)", left_out={"diagonal": 0}
    ),
    OperatorPair(
        "torch.diagflat",
        "aten.diagflat",
        "torch.diagflat(input, offset)",
        "jnp.diagflat(input, offset)",
        left_out={"offset": 0},
    ),
    OperatorPair(
        "torch.tril", "aten.tril", "torch.tril(input, diagonal)", "jnp.tril(input, diagonal)", left_out={"diagonal": 0}
    ),
    OperatorPair(
        "torch.triu", "aten.triu", "torch.triu(input, diagonal)", "jnp.triu(input, diagonal)", left_out={"diagonal": 0}
    ),
    OperatorPair("torch.trace", "aten.trace", "torch.trace(input)", "jnp.trace(input)"),
    OperatorPair(
        "torch.block_diag", "aten.block_diag", "torch.block_diag(*tensors)", "jax.scipy.linalg.block_diag(*tensors)"
    ),
)
