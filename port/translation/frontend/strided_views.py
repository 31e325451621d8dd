"""Recognise strided views that are a matrix's diagonal, such as those that ``fill_diagonal_`` writes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

_DIAGONAL = {
    "aten.as_strided.default": "aten.diagonal.default",
    "aten.as_strided_copy.default": "aten.diagonal.default",
    "aten.as_strided_scatter.default": "aten.diagonal_scatter.default",
}


def recognised_view(node: Node, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return an operator and its arguments, with a strided view of a diagonal replaced by ``diagonal``.

    Args:
        node: the node of the graph.
        name: its operator.
        arguments: its arguments by name.
    """
    if name not in _DIAGONAL or not _is_diagonal(node):
        return name, dict(arguments)
    kept = {key: arguments[key] for key in ("self", "src") if key in arguments}
    return _DIAGONAL[name], {**kept, "offset": 0, "dim1": 0, "dim2": 1}


def _is_diagonal(node: Node) -> bool:
    """Whether a view of a contiguous matrix is its whole main diagonal."""
    base = node.args[0]
    matrix = base.meta.get("val") if isinstance(base, Node) else None
    first = 2 if "scatter" in str(node.target) else 1
    if not isinstance(matrix, torch.Tensor) or matrix.dim() != 2 or not matrix.is_contiguous():
        return False
    if node.kwargs or len(node.args) < first + 2:
        return False
    size, stride = (list(map(_value_of, one)) for one in node.args[first : first + 2])  # type: ignore[arg-type]
    offset = _value_of(node.args[first + 2]) if len(node.args) > first + 2 else None
    if len(size) != 1:
        return False
    rows, columns = matrix.shape
    shorter, other = (rows, columns) if _same(size[0], rows) else (columns, rows)
    begins = offset is None or _same(offset, matrix.storage_offset())
    return (
        begins and _same(size[0], shorter) and _same(stride[0], columns + 1) and statically_known_true(shorter <= other)
    )


def _value_of(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def _same(one: Any, other: Any) -> bool:
    return bool(statically_known_true(one == other))
