"""How a number reads in a body: without two signs, and worked out where nobody knows it by heart."""

from __future__ import annotations

from port.translation.ir import syntax
from port.translation.ir.number import is_same
from port.translation.ir.origin_expression import expression_of, value_of

_LONG = 8
"""Letters of a number that nobody has worked out by heart."""


def of_literals(node: syntax.Const) -> syntax.Expr:
    """A long number as the original works it out of literals: ``math.sqrt(2.0 / math.pi)``."""
    assert node.origin is not None
    if len(repr(node.value)) <= _LONG or not is_same(value_of(node.origin), node.value):
        return node
    return expression_of(node.origin, lambda _: None) or node


def without_double_minus(node: syntax.UnaryOp) -> syntax.Expr:
    """``x`` for ``--x``: a number below zero is written with a sign, and what it is said with may have one."""
    match node:
        case syntax.UnaryOp("-", syntax.UnaryOp("-", inner)):
            return inner
    return node
