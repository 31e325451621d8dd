"""The form of a number in a body: without double signs, and as a formula where the digits say little."""

from __future__ import annotations

from port.translation.ir import syntax
from port.translation.ir.number import is_same
from port.translation.ir.origin_expression import expression_of, value_of

_LONG = 8
"""A literal with more characters than this is written as a formula."""


def of_literals(node: syntax.Const) -> syntax.Expr:
    """Write a long number as the original's formula of literals: ``math.sqrt(2.0 / math.pi)``."""
    assert node.origin is not None
    if len(repr(node.value)) <= _LONG or not is_same(value_of(node.origin), node.value):
        return node
    return expression_of(node.origin, lambda _: None) or node


def without_double_minus(node: syntax.UnaryOp) -> syntax.Expr:
    """Write ``x`` for ``--x``: a negative number is written with a sign, and its expression may have one too."""
    match node:
        case syntax.UnaryOp("-", syntax.UnaryOp("-", inner)):
            return inner
    return node
