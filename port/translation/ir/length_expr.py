"""Lengths that the inputs decide, as source: the formula of a symbol, read from the arrays at hand."""

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
        return _read(syntax.parsed(formula), read)
    except (_NotThere, SyntaxError):
        return None


class _NotThere(Exception):
    pass


def _read(node: syntax.Expr, read: Read) -> syntax.Expr:
    """A formula's source, each symbol of it read from an array, and each part that an array shows."""
    match node:
        case syntax.Name(name):
            found = read(name)
            if found is None:
                raise _NotThere
            return found
        case syntax.BinOp():
            # A part that an array shows is read there, and not worked out again.
            return read(syntax.source(node)) or syntax.with_parts(node, lambda part: _read(part, read))
        case syntax.Call(func, arguments):
            return read(syntax.source(node)) or _called(func, tuple(_read(each, read) for each in arguments))
    return syntax.with_parts(node, lambda part: _read(part, read))


def _called(func: syntax.Expr, arguments: tuple[syntax.Expr, ...]) -> syntax.Expr:
    """A function of torch's in Python."""
    name = _FUNCTIONS.get(func.id) if isinstance(func, syntax.Name) else None
    if name is None:
        raise _NotThere
    if name in _OPERATORS:
        return syntax.BinOp(arguments[0], name, arguments[1])
    return syntax.Call(syntax.Name(name), arguments) if name else arguments[0]
