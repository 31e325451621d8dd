"""Emit symbolic lengths: formulas whose symbols are read from the shapes of arrays."""

from __future__ import annotations

from collections.abc import Callable

from port.translation.ir import syntax
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
    "FloorToInt": "int",
    "Max": "max",
    "Min": "min",
    "Identity": "",
}
_OPERATORS = ("//", "%", "/", "**")

Read = Callable[[str], syntax.Expr | None]


def length(formula: Size, read: Read) -> syntax.Expr | None:
    """Return the expression of a length; None if one of its symbols cannot be read.

    Args:
        formula: a number, or a formula of symbols in torch's notation.
        read: returns the expression that reads a symbol, or a whole formula, from an array's shape; None if no array
            has it.
    """
    if isinstance(formula, int):
        return literal(formula)
    whole = read(formula)
    if whole is not None:
        return whole
    try:
        return _read(syntax.parsed(formula), read)
    except (_Unreadable, SyntaxError):
        return None


class _Unreadable(Exception):
    pass


def _read(node: syntax.Expr, read: Read) -> syntax.Expr:
    """Emit a formula; symbols, and parts that are an array's length themselves, are read from arrays."""
    match node:
        case syntax.Name(name):
            found = read(name)
            if found is None:
                raise _Unreadable
            return found
        case syntax.BinOp():
            # A part that is an array's length is read, not computed.
            return read(syntax.source(node)) or syntax.with_parts(node, lambda part: _read(part, read))
        case syntax.Call(func, arguments):
            return read(syntax.source(node)) or _called(func, tuple(_read(each, read) for each in arguments))
    return syntax.with_parts(node, lambda part: _read(part, read))


def _called(func: syntax.Expr, arguments: tuple[syntax.Expr, ...]) -> syntax.Expr:
    """Return the Python expression for one of torch's symbolic functions."""
    name = _FUNCTIONS.get(func.id) if isinstance(func, syntax.Name) else None
    if name is None:
        raise _Unreadable
    if name in _OPERATORS:
        return syntax.BinOp(arguments[0], name, arguments[1])
    return syntax.Call(syntax.Name(name), arguments) if name else arguments[0]
