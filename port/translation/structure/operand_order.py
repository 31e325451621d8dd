"""Put numbers in front of the operand that they are multiplied with or added to, if the original does: ``0.5 * x``."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection
from functools import cache

from port.translation.ir import syntax
from port.translation.ir.origin import AttributeOf, LiteralAt, Origin
from port.translation.ir.origin_expression import leaves_of
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.source_map import statement_at

_OPERATORS: dict[str, type[ast.operator]] = {"*": ast.Mult, "+": ast.Add}
"""Operators for which torch always receives the array first. Either order gives the same bits."""


def with_numbers_in_front(expression: syntax.Expr, place: SourceLocation | None) -> syntax.Expr:
    """Order the operands of products and sums as in the original's statement.

    Args:
        expression: with the origins of its numbers.
        place: the line that it comes from.
    """
    statement = statement_at(place)
    if statement is None:
        return expression

    def ordered(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.BinOp(left, operator, syntax.Const() as number) if operator in _OPERATORS:
                is_number = isinstance(left, syntax.Const) or number.origin is None
                if not is_number and _is_in_front(statement.text, operator, number.origin):
                    return syntax.BinOp(number, operator, left)
        return node

    return syntax.transformed(expression, ordered)


def _is_in_front(text: str, operator: str, origin: Origin | None) -> bool:
    leaves = [] if origin is None else list(leaves_of(origin))
    sides = [tuple(_is_number(side, leaves) for side in operation) for operation in _operations(text, operator)]
    return (True, False) in sides and (False, True) not in sides


@cache
def _operations(text: str, operator: str) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """The operands of an operator, wherever it occurs in a statement."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:  # the head of a block
        return ()
    operations = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp))
    return tuple((node.left, node.right) for node in operations if isinstance(node.op, _OPERATORS[operator]))


def _is_number(tree: ast.expr, leaves: Collection[Origin]) -> bool:
    """Whether an expression appears to be the number computed from these origins."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names <= {"math", "self"} and any(_is_of(node, leaf) for node in ast.walk(tree) for leaf in leaves)


def _is_of(node: ast.AST, leaf: Origin) -> bool:
    match node, leaf:
        case ast.Constant(value), LiteralAt(known):
            return type(value) is type(known) and bool(value == known)
        case ast.Attribute(), AttributeOf(attribute=name):
            return ast.unparse(node) == f"self.{name}"
    return False
