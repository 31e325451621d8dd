"""Rename the variables of a script's expression to the written source's names."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping


def renamed(expression: ast.expr, names: Mapping[str, str]) -> str:
    """An expression as source, with some variables renamed.

    Args:
        expression: the expression, which is not changed.
        names: old → new.
    """
    return ast.unparse(_Renamed(names).visit(copy.deepcopy(expression)))


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)
