"""Items of trees in variables: ``outputs["scores"]``."""

from __future__ import annotations

from port.translation.ir import syntax


def item_taken(node: syntax.Node) -> syntax.Node:
    """Write an item of a tree: ``outputs["scores"]``."""
    return syntax.Subscript(node.tree, node.key) if isinstance(node, syntax.Item) else node


def is_item_of(expression: syntax.Expr, name: str) -> bool:
    """Whether an expression is an item, at any depth, of a variable's value."""
    is_item = isinstance(expression, syntax.Subscript)
    while isinstance(expression, syntax.Subscript):
        expression = expression.value
    return is_item and is_called(expression, name)


def is_called(expression: syntax.Expr | None, name: str) -> bool:
    """Whether an expression is the variable of that name."""
    return expression == syntax.Name(name)
