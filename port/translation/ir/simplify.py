"""Expressions with what numbers alone say worked out: ``-1 % 4 + 1`` is 4, ``(x)[0]`` of a written tuple its item."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from port.translation.ir.expr import VALUE, literal

_BUILTINS = (
    "len",
    "tuple",
    "range",
    "zip",
    "min",
    "max",
    "sorted",
    "int",
    "float",
    "abs",
    "list",
    "reversed",
    "isinstance",
)
_WORKED_OUT = (ast.BinOp, ast.Subscript, ast.Call, ast.ListComp, ast.IfExp, ast.Compare, ast.BoolOp, ast.UnaryOp)


def simplify(expression: ast.expr, rank: Callable[[str], int | None] = lambda name: None) -> ast.expr:
    """An expression whose constant parts are numbers.

    Args:
        expression: to be simplified.
        rank: of the value of a name, if it is known: then ``x.ndim`` is a number too.
    """
    result: ast.expr = _Simplifying(rank).visit(expression)
    return result


class _Simplifying(ast.NodeTransformer):
    def __init__(self, rank: Callable[[str], int | None]) -> None:
        self.rank = rank

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "ndim" and isinstance(node.value, ast.Name) and node.value.id.startswith(VALUE):
            known = self.rank(node.value.id[1:])
            if known is not None:
                return ast.Constant(known)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.Attribute):
            node = super().generic_visit(node)
        else:
            super().generic_visit(node)
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        if isinstance(node, ast.BoolOp) and isinstance(node.values[0], ast.Constant):
            return self._short_circuit(node)
        if isinstance(node, _WORKED_OUT) and _is_constant(node):
            return _worked_out(node)
        if isinstance(node, ast.List | ast.Tuple):
            node.elts = [item for element in node.elts for item in _unstarred(element)]
        if isinstance(node, ast.Call):
            node.args = [item for argument in node.args for item in _unstarred(argument)]
        return node

    def _short_circuit(self, node: ast.BoolOp) -> ast.AST:
        first = node.values[0]
        assert isinstance(first, ast.Constant)
        decided = bool(first.value) == isinstance(node.op, ast.Or)
        if decided:
            return first
        rest = node.values[1:]
        return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unstarred(element: ast.expr) -> list[ast.expr]:
    if isinstance(element, ast.Starred) and isinstance(element.value, ast.Tuple | ast.List):
        return element.value.elts
    return [element]


def _is_constant(node: ast.AST) -> bool:
    """Whether only numbers, strings and the builtins of numbers stand in it."""
    bound = {
        name.id for inner in ast.walk(node) if isinstance(inner, ast.comprehension) for name in _names(inner.target)
    }
    return not any(
        (isinstance(inner, ast.Name) and inner.id not in bound and inner.id not in _BUILTINS)
        or isinstance(inner, ast.Attribute | ast.Lambda)
        for inner in ast.walk(node)
    )


def _names(target: ast.AST) -> list[ast.Name]:
    return [inner for inner in ast.walk(target) if isinstance(inner, ast.Name)]


def _worked_out(node: ast.AST) -> ast.AST:
    try:
        assert isinstance(node, ast.expr)
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "constant", "eval")
        made: Any = eval(code, {"__builtins__": {name: getattr(builtins, name) for name in _BUILTINS}})
        return literal(made)
    except Exception:
        return node


def merged_subscripts(expression: ast.expr) -> ast.expr:
    """``x[:, 1:, ::2]`` for ``x[:, 1:][..., ::2]``: slices of several axes in one pair of brackets."""
    result: ast.expr = _Merging().visit(expression)
    return result


class _Merging(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        inner = node.value
        if not isinstance(inner, ast.Subscript):
            return node
        first, second = _parts(inner), _parts(node)
        if first is None or second is None:
            return node
        together = _joined(first, second)
        if together is None:
            return node
        index = together[0] if len(together) == 1 else ast.Tuple(together, ast.Load())
        return ast.Subscript(inner.value, index, ast.Load())


def _parts(node: ast.Subscript) -> list[ast.expr] | None:
    """The parts of an index, if each takes one axis from the front; None otherwise."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    plain = all(isinstance(part, ast.Slice) or _is_number(part) for part in parts)
    return list(parts) if plain else None


def _is_number(part: ast.expr) -> bool:
    if isinstance(part, ast.UnaryOp):
        part = part.operand
    return isinstance(part, ast.Constant) and type(part.value) is int


def _joined(first: list[ast.expr], second: list[ast.expr]) -> list[ast.expr] | None:
    """The index that does what two do one after the other."""
    made = list(first)
    axes = [place for place, part in enumerate(first) if isinstance(part, ast.Slice)]
    for number, part in enumerate(second):
        if number < len(axes):
            place = axes[number]
            whole = made[place]
            assert isinstance(whole, ast.Slice)
            if whole.lower is whole.upper is whole.step is None:
                made[place] = part
            elif not (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None):
                return None
        else:
            made.append(part)
    return made


def with_whole_lists(expression: ast.expr, lengths: dict[str, int]) -> ast.expr:
    """``parts`` for ``[parts[0], parts[1], parts[2]]``, where that is all of it.

    Args:
        expression: source.
        lengths: of the parameters that are lists.
    """
    result: ast.expr = _Whole(lengths).visit(expression) if lengths else expression
    return result


class _Whole(ast.NodeTransformer):
    def __init__(self, lengths: dict[str, int]) -> None:
        self.lengths = lengths

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        found = [_item(element) for element in node.elts]
        names = {name for name, _ in found}
        if len(names) != 1:
            return node
        name = names.pop()
        whole = name in self.lengths and [place for _, place in found] == list(range(self.lengths[name]))
        return ast.Name(name) if whole else node


def _item(element: ast.expr) -> tuple[str, int]:
    match element:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(place))):
            return name, place
    return "", -1
