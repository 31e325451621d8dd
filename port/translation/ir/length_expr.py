"""Lengths that the inputs decide, as source: the formula of a symbol, read from the arrays at hand."""

from __future__ import annotations

import ast
from collections.abc import Callable

from port.translation.ir.expr import literal
from port.translation.ir.graph import Size

_FUNCTIONS = {
    "FloorDiv": "//",
    "CleanDiv": "//",
    "PythonMod": "%",
    "Mod": "%",
    "IntTrueDiv": "/",
    "FloatTrueDiv": "/",
    "TruncToInt": "int",
    "ToFloat": "float",
    "FloatPow": "**",
    "PowByNatural": "**",
    "CeilToInt": "ceil",
    "FloorToInt": "int",
    "Max": "max",
    "Min": "min",
    "Identity": "",
}
_OPERATORS = {"//": ast.FloorDiv, "%": ast.Mod, "/": ast.Div, "**": ast.Pow}


def length(formula: Size, read: Callable[[str], ast.expr | None]) -> ast.expr | None:
    """The source of a length.

    Args:
        formula: a number, or a formula of symbols as torch writes it.
        read: the expression that reads a symbol, or a whole formula, from an array's shape; None if none shows it.

    Returns:
        the expression; None where a symbol cannot be read.
    """
    if isinstance(formula, int):
        return literal(formula)
    whole = read(formula)
    if whole is not None:
        return whole
    try:
        return _Reading(read).visit(ast.parse(formula, mode="eval").body)  # type: ignore[no-any-return]
    except (_NotThere, SyntaxError):
        return None


class _NotThere(Exception):
    pass


class _Reading(ast.NodeTransformer):
    def __init__(self, read: Callable[[str], ast.expr | None]) -> None:
        self.read = read

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        # A part that an array shows is read there, and not worked out again.
        return self.read(ast.unparse(node)) or self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.read(node.id)
        if found is None:
            raise _NotThere
        return found

    def visit_Call(self, node: ast.Call) -> ast.expr:
        whole = self.read(ast.unparse(node))
        if whole is not None:
            return whole
        name = _FUNCTIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        arguments: list[ast.expr] = [self.visit(argument) for argument in node.args]
        if name is None or (name == "ceil"):
            raise _NotThere
        if name in _OPERATORS:
            return ast.BinOp(arguments[0], _OPERATORS[name](), arguments[1])
        return arguments[0] if not name else ast.Call(ast.Name(name), arguments, [])
