"""Convert origins to expressions of the generated source."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.ir.origin import LiteralAt, NamedLength, Origin, ShapeRead, WorkedOut

_CONSTANTS = {math.pi: "math.pi", math.e: "math.e"}
Leaf = Callable[[Origin], syntax.Expr | None]


def expression_of(origin: Origin, leaf: Leaf) -> syntax.Expr | None:
    """Return the expression for an origin; None if a part of it has none.

    Args:
        origin: a number's origin.
        leaf: returns the expression for an origin that is neither a literal nor a computation.
    """
    match origin:
        case LiteralAt(value):
            return code(_CONSTANTS[value]) if type(value) is float and value in _CONSTANTS else literal(value)
        case WorkedOut(function, operands):
            made = [expression_of(operand, leaf) for operand in operands]
            parts = tuple(part for part in made if part is not None)
            return _computation(function, parts) if len(parts) == len(made) else None
    return leaf(origin)


def _computation(function: str, operands: tuple[syntax.Expr, ...]) -> syntax.Expr:
    match operands:
        case _ if function.replace(".", "").isidentifier():
            return syntax.Call(code(function), operands)
        case (only,):
            return syntax.UnaryOp(function, only)
        case left, right:
            return syntax.BinOp(left, function, right)
    raise ValueError(f"{function} of {len(operands)} operands")


def read_length(origin: ShapeRead | NamedLength) -> syntax.Expr:
    """Return the expression that reads a length: from an array's shape, or by name."""
    if isinstance(origin, NamedLength):
        return code(origin.variable)
    return code(f"{origin.variable}.shape[{origin.axis}]")


def with_leaves(origin: Origin, instead: Callable[[Origin], Origin]) -> Origin:
    """Replace the leaves of an origin."""
    if isinstance(origin, WorkedOut):
        return WorkedOut(origin.function, tuple(with_leaves(operand, instead) for operand in origin.operands))
    return instead(origin)


def value_of(origin: Origin) -> Any:
    """Evaluate an origin of literals; None for one with other leaves, or if the evaluation fails."""
    made = expression_of(origin, lambda _: None)
    try:
        return None if made is None else eval(syntax.compiled(made), {"math": math})
    except (ArithmeticError, ValueError):
        return None


def leaves_of(origin: Origin) -> Iterator[Origin]:
    """Yield an origin's leaves: those that are not computations."""
    if isinstance(origin, WorkedOut):
        for operand in origin.operands:
            yield from leaves_of(operand)
    else:
        yield origin
