"""Variables of a script's expression under the names that they have in what is written."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping


def renamed(expression: ast.expr, names: Mapping[str, str]) -> str:
    """An expression as source, some of its variables under other names.

    Args:
        expression: is left as it is.
        names: old → new.
    """
    return ast.unparse(_Renamed(names).visit(copy.deepcopy(expression)))


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)
