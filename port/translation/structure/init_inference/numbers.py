"""Numbers and constants of a constructor, in the form that a person would write."""

from __future__ import annotations

import math
from functools import cache
from typing import TypeVar

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted

_LONG, _MOST_BELOW = 8, 20_000


N = TypeVar("N", bound=syntax.Node)


def readable(tree: N) -> N:
    """Write ``0.02 / math.sqrt(24)`` for 0.00408…, and ``jnp.zeros`` for a constant 0."""
    return syntax.transformed(tree, _readable)


_FANS = 4096
"""Up to this number, 1 / √n is taken to come from a fan."""


def is_short(value: float) -> bool:
    """Whether a number is short enough to be written as it is."""
    return len(repr(_rounded(value))) <= _LONG


def number(value: float) -> syntax.Expr:
    """Write a number; a long one as a round number divided by a root, if it is one."""
    if value < 0:
        return syntax.UnaryOp("-", number(-value))
    value = _rounded(value)
    quotient = _quotient(value) if len(repr(value)) > _LONG and math.isfinite(value) else None
    if quotient is None:
        return syntax.Const(value)
    return code("above / math.sqrt(below)", above=quotient[0], below=quotient[1])


@cache
def _quotient(value: float) -> tuple[float, int] | None:
    """Find a round number, and the root that it is divided by: 1 if possible, else the roundest."""
    found = []
    for below in range(2, _MOST_BELOW):
        above = float(f"{value * math.sqrt(below):.2g}")
        if 1e-4 < above < 1e4 and math.isclose(above / math.sqrt(below), value, rel_tol=1e-12):
            found.append((int(above) if above.is_integer() else above, below))
    # 1 / √24 before 0.5 / √6, as fans are; but 0.02 / √6 before 1 / √15000.
    return min(found, key=lambda pair: (pair[0] != 1 or pair[1] > _FANS, _digits(pair[0]), pair[1]), default=None)


def _rounded(value: float) -> float:
    """Remove rounding errors in the last place."""
    short = float(f"{value:.6g}")
    return short if math.isclose(short, value, rel_tol=1e-14) else value


def _digits(value: float) -> int:
    return len(f"{value:e}".partition("e")[0].rstrip("0"))


_CONSTANTS = {0: "zeros", 1: "ones"}


def _readable(node: syntax.Node) -> syntax.Node:
    match node:
        case syntax.Const(float() as value):
            return number(value)
        case syntax.Call(func, (shape, syntax.Const(0 | 1 as value), dtype)) if dotted(func) == "jnp.full":
            return syntax.Call(code(f"jnp.{_CONSTANTS[value]}"), (shape, dtype))
        case syntax.Call(func, (syntax.Const(0 | 1 as value),)) if dotted(func) == "nnx.initializers.constant":
            return code(f"nnx.initializers.{_CONSTANTS[value]}")
    return node
