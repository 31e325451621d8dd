"""Lengths with two source forms, the original's or a read of an array's shape: which one is written."""

from __future__ import annotations

from typing import TypeVar

from port.translation.ir import syntax
from port.translation.ir.origin import LiteralAt, NamedLength, Origin
from port.translation.ir.origin_expression import expression_of, leaves_of, read_length

N = TypeVar("N", bound=syntax.Node)


def said_with_names(origin: Origin) -> syntax.Expr | None:
    """The expression of an origin that consists of named lengths and the original's literals; None for others."""
    leaves = list(leaves_of(origin))
    named = any(isinstance(each, NamedLength) for each in leaves)
    return expression_of(origin, _leaf) if named and all(map(_is_known, leaves)) else None


def _leaf(origin: Origin) -> syntax.Expr | None:
    return read_length(origin) if isinstance(origin, NamedLength) else None


def _is_known(origin: Origin) -> bool:
    """Whether an origin is in the source; a literal without a place is a rule's own number."""
    return isinstance(origin, NamedLength) or (isinstance(origin, LiteralAt) and origin.location is not None)


def is_said(expression: syntax.Expr) -> bool:
    """Whether no number is left in an expression that the original expresses in another way."""
    for node in syntax.walk(expression):
        match node:
            case syntax.Use() | syntax.SaidLength():
                return False
            case syntax.Const() if node.origin is not None:
                if not all(isinstance(each, LiteralAt) and each.location for each in leaves_of(node.origin)):
                    return False
    return True


def settled(tree: N) -> N:
    """Write lengths as the original does where that form is complete by now, and as reads of shapes otherwise."""

    def of(node: syntax.Node) -> syntax.Node:
        if not isinstance(node, syntax.SaidLength):
            return node
        return node.said if is_said(node.said) else node.otherwise

    return syntax.transformed(tree, of)


def without_unread_lengths(statements: tuple[syntax.Stmt, ...], returns: syntax.Expr | None) -> tuple[syntax.Stmt, ...]:
    """Remove statements that name lengths that nothing reads."""
    kept: list[syntax.Stmt] = []
    read = _names_read(returns)
    for statement in reversed(statements):
        if isinstance(statement, syntax.If):
            # What is read after it is read after the statements inside it.
            behind = syntax.Tuple(tuple(map(syntax.Name, sorted(read))))
            body = without_unread_lengths(statement.body, behind)
            orelse = without_unread_lengths(statement.orelse, behind)
            if not body and not orelse:
                continue
            if (body, orelse) != (statement.body, statement.orelse):
                statement = syntax.If(statement.test, body, orelse) if body else _negated(statement.test, orelse)
        named = _named_by(statement)
        if named and not named & read:
            continue
        if isinstance(statement, syntax.Assign) and isinstance(statement.target, syntax.Name):
            read = read - {statement.target.id} | _names_read(statement.value)
        else:
            read = read - named | _names_read(statement)
        kept.insert(0, statement)
    return tuple(kept)


def _negated(test: syntax.Expr, body: tuple[syntax.Stmt, ...]) -> syntax.If:
    is_not = isinstance(test, syntax.UnaryOp) and test.op == "not"
    return syntax.If(test.operand if is_not else syntax.UnaryOp("not", test), body)  # type: ignore[attr-defined]


def _names_read(tree: syntax.Node | None) -> set[str]:
    return {node.id for node in syntax.walk(tree) if isinstance(node, syntax.Name)}


def _named_by(statement: syntax.Stmt) -> set[str]:
    """The names that a statement assigns to lengths; none where it does something else."""
    match statement:
        case syntax.Assign(target, value) if _is_shape(value):
            return {node.id for node in syntax.walk(target) if isinstance(node, syntax.Name)}
    return set()


def _is_shape(value: syntax.Expr) -> bool:
    match value:
        case syntax.Tuple(items):
            return bool(items) and all(map(_is_shape, items))
        case syntax.Attribute(syntax.Name() | syntax.Subscript(), "shape"):
            return True
        case syntax.Subscript(syntax.Attribute(_, "shape") as shape):
            return _is_shape(shape)
    return False
