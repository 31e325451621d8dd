"""Diagonals, matrices from diagonals, and triangles."""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair

_ALONG = "jnp.arange(src.shape[-1])"
_LAST_TWO = "dim1 % input.ndim == input.ndim - 2 and dim2 % input.ndim == input.ndim - 1"

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
        "torch.diagonal_scatter",
        "aten.diagonal_scatter",
        "torch.diagonal_scatter(input, src, offset, dim1, dim2)",
        "jnp.fill_diagonal(input, src, inplace=False)",
        only_if=f"input.ndim == 2 and offset == 0 and {_LAST_TWO}",
    ),
    *(
        OperatorPair(
            "torch.diagonal_scatter",
            "aten.diagonal_scatter",
            "torch.diagonal_scatter(input, src, offset, dim1, dim2)",
            f"input.at[..., {rows}, {columns}].set(src)",
            only_if=f"{only_if} and {_LAST_TWO}",
        )
        for rows, columns, only_if in (
            (_ALONG, _ALONG, "input.ndim > 2 and offset == 0"),
            (_ALONG, f"{_ALONG} + offset", "offset > 0"),
            (f"{_ALONG} + -offset", _ALONG, "offset < 0"),
        )
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
