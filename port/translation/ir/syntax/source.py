"""Convert nodes to Python text, or compile them."""

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
    """Return the text of an expression, or of a statement of one line.

    Placeholders are printed in forms that are not Python: a value as ``%x``, a module's attribute as
    ``@path|attribute``.

    Raises:
        TypeError: the node has no text of one line.
    """
    match node:
        case s.Return(value):
            return f"return {bare(value)}"
        case s.Raise(value):
            return f"raise {source(value)}"
        case s.Assign(target, value):
            return f"{bare(target)} = {bare(value)}"
        case e.BoolOp(op, values):  # ast.unparse adds parentheses from the fourth comparison on
            return f" {op} ".join(f"({source(each)})" if _is_apart_in(op, each) else source(each) for each in values)
    return ast.unparse(_tree(node))


def _is_apart_in(op: str, part: Expr) -> bool:
    """Whether an operand of ``and`` or ``or`` needs parentheses."""
    match part:
        case e.BoolOp(other):
            return op == "and" or other == op
    return isinstance(part, e.IfExp | e.Lambda)


def bare(expression: Expr) -> str:
    """Return the text of a top-level expression: a tuple of two or more items has no parentheses."""
    match expression:
        case e.Tuple((_, _, *_) as items):
            return ", ".join(map(source, items))
    return source(expression)


def compiled(expression: Expr) -> CodeType:
    """Compile an expression for `eval`."""
    return compile(ast.fix_missing_locations(ast.Expression(_expression(expression))), "<expression>", "eval")


def _tree(node: Node) -> Any:
    """Convert an expression, a keyword or a statement of one line to Python's `ast`."""
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
    """Convert a placeholder to a name that is not valid Python."""
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
    raise TypeError(f"{type(node).__name__} is not an expression that can be emitted")


def _all(nodes: tuple[Expr, ...]) -> list[ast.expr]:
    return [_expression(node) for node in nodes]


def _comprehensions(nodes: tuple[e.Comprehension, ...]) -> list[ast.comprehension]:
    return [ast.comprehension(_bound(node.target), _expression(node.iter), _all(node.ifs), 0) for node in nodes]


def _bound(target: Expr) -> ast.expr:
    """Convert a comprehension's target, whose names have the context `ast.Store`."""
    match target:
        case e.Name(name):
            return ast.Name(name, ast.Store())
        case e.Tuple(items):
            return ast.Tuple([_bound(item) for item in items], ast.Store())
    raise TypeError(f"{source(target)} cannot be the target of a comprehension")


def _inverted(table: dict[type[T], str]) -> dict[str, type[T]]:
    return {text: kind for kind, text in table.items()}


_READ = ast.Load()
_ONE, _TWO, _BOOLS, _COMPARISONS = _inverted(OF_ONE), _inverted(OF_TWO), _inverted(OF_BOOLS), _inverted(OF_COMPARISONS)
