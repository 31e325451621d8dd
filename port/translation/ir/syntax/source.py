"""Nodes as Python: as text, and compiled."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any, TypeVar

from port.translation.ir.syntax import expressions as e
from port.translation.ir.syntax import statements as s
from port.translation.ir.syntax.node import Expr, Node
from port.translation.ir.syntax.operators import OF_BOOLS, OF_COMPARISONS, OF_ONE, OF_TWO

T = TypeVar("T")


def source(node: Node) -> str:
    """The text of an expression, or of a statement of one line.

    What has no name yet is shown as no Python can be: a value as ``%x``, what the module holds as ``@path|attribute``.
    """
    match node:
        case s.Return(value):
            return f"return {bare(value)}"
        case s.Raise(value):
            return f"raise {source(value)}"
        case s.Assign(target, value):
            return f"{bare(target)} = {bare(value)}"
        case e.BoolOp(op, values):  # ast puts parentheses around the fourth comparison and those behind it
            return f" {op} ".join(f"({source(each)})" if _is_apart_in(op, each) else source(each) for each in values)
    return ast.unparse(_tree(node))


def _is_apart_in(op: str, part: Expr) -> bool:
    """Whether a part of a chain of ``and`` or ``or`` stands in parentheses."""
    match part:
        case e.BoolOp(other):
            return op == "and" or other == op
    return isinstance(part, e.IfExp | e.Lambda)


def bare(expression: Expr) -> str:
    """The text of an expression that stands alone: a tuple goes without its parentheses, where it needs none."""
    match expression:
        case e.Tuple((_, _, *_) as items):
            return ", ".join(map(source, items))
    return source(expression)


def compiled(expression: Expr) -> CodeType:
    """An expression for `eval`."""
    return compile(ast.fix_missing_locations(ast.Expression(_expression(expression))), "<expression>", "eval")


def _tree(node: Node) -> Any:
    """Python's own tree of an expression, of a keyword, or of a statement of one line."""
    match node:
        case Expr():
            return _expression(node)
        case e.Keyword(name, value):
            return ast.keyword(name, _expression(value))
        case s.AnnAssign(target, annotation, value):
            named: Any = _expression(target)
            return ast.AnnAssign(named, _expression(annotation), _expression(value), 1)
        case s.ExprStmt(value):
            return ast.Expr(_expression(value))
        case s.Pass():
            return ast.Pass()
    raise TypeError(f"{type(node).__name__} has no text of one line")


def _expression(node: Expr) -> ast.expr:
    match node:
        case e.Name(name):
            return ast.Name(name, _READ)
        case e.Const(value):
            return ast.Constant(value)
        case e.Attribute(value, name):
            return ast.Attribute(_expression(value), name, _READ)
        case e.Subscript(value, index):
            return ast.Subscript(_expression(value), _expression(index), _READ)
        case e.Slice(lower, upper, step):
            return ast.Slice(*(None if part is None else _expression(part) for part in (lower, upper, step)))
        case e.Call(func, args, keywords):
            named = [ast.keyword(keyword.arg, _expression(keyword.value)) for keyword in keywords]
            return ast.Call(_expression(func), _all(args), named)
        case e.Starred(value):
            return ast.Starred(_expression(value), _READ)
        case e.Tuple(items):
            return ast.Tuple(_all(items), _READ)
        case e.List(items):
            return ast.List(_all(items), _READ)
        case e.Dict(keys, values):
            return ast.Dict([*_all(keys)], _all(values))
        case e.UnaryOp(op, operand):
            return ast.UnaryOp(_ONE[op](), _expression(operand))
        case e.BinOp(left, "**", e.UnaryOp("-", e.Const(int() | float() as number))):
            return ast.BinOp(_expression(left), ast.Pow(), ast.Constant(-number))  # without parentheses
        case e.BinOp(left, op, right):
            return ast.BinOp(_expression(left), _TWO[op](), _expression(right))
        case e.BoolOp(op, values):
            return ast.BoolOp(_BOOLS[op](), _all(values))
        case e.Compare(left, ops, others):
            return ast.Compare(_expression(left), [_COMPARISONS[op]() for op in ops], _all(others))
        case e.IfExp(test, body, orelse):
            return ast.IfExp(_expression(test), _expression(body), _expression(orelse))
        case e.Lambda(names, body):
            taken = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
            return ast.Lambda(taken, _expression(body))
        case e.ListComp(item, generators):
            return ast.ListComp(_expression(item), _comprehensions(generators))
        case e.GeneratorExp(item, generators):
            return ast.GeneratorExp(_expression(item), _comprehensions(generators))
        case _:
            return _shown(node)


def _shown(node: Expr) -> ast.expr:
    """What is no Python yet."""
    match node:
        case e.Use(name):
            return ast.Name(f"%{name}", _READ)
        case e.Attr(path, attribute):
            return ast.Name(f"@{path}|{attribute}", _READ)
        case e.Item(tree, key):
            return ast.Subscript(_expression(tree), _expression(key), _READ)
        case e.SaidLength(said, otherwise):
            return ast.Name(f"<{source(said)} or {source(otherwise)}>", _READ)
        case e.Hole(name):
            return ast.Name(f"<{name}>", _READ)
    raise TypeError(f"{type(node).__name__} is no expression that is written")


def _all(nodes: tuple[Expr, ...]) -> list[ast.expr]:
    return [_expression(node) for node in nodes]


def _comprehensions(nodes: tuple[e.Comprehension, ...]) -> list[ast.comprehension]:
    return [ast.comprehension(_bound(node.target), _expression(node.iter), _all(node.ifs), 0) for node in nodes]


def _bound(target: Expr) -> ast.expr:
    """What a comprehension gives its items to: Python wants to be told that it is not read."""
    match target:
        case e.Name(name):
            return ast.Name(name, ast.Store())
        case e.Tuple(items):
            return ast.Tuple([_bound(item) for item in items], ast.Store())
    raise TypeError(f"{source(target)} is nothing that an item is given to")


def _turned(table: dict[type[T], str]) -> dict[str, type[T]]:
    return {text: kind for kind, text in table.items()}


_READ = ast.Load()
_ONE, _TWO, _BOOLS, _COMPARISONS = _turned(OF_ONE), _turned(OF_TWO), _turned(OF_BOOLS), _turned(OF_COMPARISONS)
