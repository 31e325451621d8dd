"""Expressions with what numbers alone say worked out: ``-1 % 4 + 1`` is 4, ``(x)[0]`` of a written tuple its item."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import literal, names_in

_BUILTINS = {
    name: getattr(builtins, name)
    for name in (
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
}
_WORKED_OUT = (
    syntax.BinOp,
    syntax.Subscript,
    syntax.Call,
    syntax.ListComp,
    syntax.IfExp,
    syntax.Compare,
    syntax.BoolOp,
    syntax.UnaryOp,
)
# What is no number, whatever stands in it.
_NO_NUMBER = (syntax.Attribute, syntax.Lambda, syntax.Use, syntax.Attr, syntax.Item, syntax.Hole)


def simplify(expression: syntax.Expr, rank: Callable[[str], int | None] = lambda name: None) -> syntax.Expr:
    """An expression whose constant parts are numbers.

    Args:
        expression: to be simplified.
        rank: of the value of a name, if it is known: then ``x.ndim`` is a number too.
    """
    return syntax.transformed(expression, lambda node: _simpler(node, rank))


def _simpler(node: syntax.Node, rank: Callable[[str], int | None]) -> syntax.Node:
    """A node whose parts are simple already."""
    match node:
        case syntax.Attribute(syntax.Use(name), "ndim"):
            known = rank(name)
            return node if known is None else syntax.Const(known)
        case syntax.IfExp(syntax.Const(test), body, orelse):
            return body if test else orelse
        case syntax.BoolOp(op, (syntax.Const() as first, *rest)):
            if bool(first.value) == (op == "or"):
                return first
            return rest[0] if len(rest) == 1 else syntax.BoolOp(op, tuple(rest))
        case syntax.Expr() if isinstance(node, _WORKED_OUT) and _is_constant(node):
            return _worked_out(node)
        case syntax.List(items) | syntax.Tuple(items) if _has_stars(items):
            return replace(node, elts=_unstarred(items))
        case syntax.Call(args=arguments) if _has_stars(arguments):
            return replace(node, args=_unstarred(arguments))
    return node


def _has_stars(items: tuple[syntax.Expr, ...]) -> bool:
    return any(isinstance(item, syntax.Starred) for item in items)


def _unstarred(items: tuple[syntax.Expr, ...]) -> tuple[syntax.Expr, ...]:
    """``a, b, c`` for ``a, *(b, c)``."""
    made: list[syntax.Expr] = []
    for item in items:
        match item:
            case syntax.Starred(syntax.Tuple(inner) | syntax.List(inner)):
                made += inner
            case _:
                made.append(item)
    return tuple(made)


def _is_constant(node: syntax.Expr) -> bool:
    """Whether only numbers, strings and the builtins of numbers stand in it."""
    nodes = list(syntax.walk(node))
    if any(isinstance(inner, _NO_NUMBER) for inner in nodes):
        return False
    bound = names_in(*(inner.target for inner in nodes if isinstance(inner, syntax.Comprehension)))
    return all(inner.id in bound or inner.id in _BUILTINS for inner in nodes if isinstance(inner, syntax.Name))


def _worked_out(node: syntax.Expr) -> syntax.Expr:
    try:
        made: Any = eval(syntax.compiled(node), {"__builtins__": _BUILTINS})
        return literal(made)
    except Exception:
        return node


def merged_subscripts(expression: syntax.Expr) -> syntax.Expr:
    """``x[:, 1:, ::2]`` for ``x[:, 1:][..., ::2]``: slices of several axes in one pair of brackets."""
    return syntax.transformed(expression, _merged)


def _merged(node: syntax.Node) -> syntax.Node:
    match node:
        case syntax.Subscript(syntax.Subscript(array, inner), outer):
            first, second = _parts(inner), _parts(outer)
            together = None if first is None or second is None else _joined(first, second)
            if together is not None:
                return syntax.Subscript(array, together[0] if len(together) == 1 else syntax.Tuple(tuple(together)))
    return node


def _parts(index: syntax.Expr) -> tuple[syntax.Expr, ...] | None:
    """The parts of an index, if each takes one axis from the front; None otherwise."""
    parts = index.elts if isinstance(index, syntax.Tuple) else (index,)
    return parts if all(isinstance(part, syntax.Slice) or _is_number(part) for part in parts) else None


def _is_number(part: syntax.Expr) -> bool:
    if isinstance(part, syntax.UnaryOp):
        part = part.operand
    return isinstance(part, syntax.Const) and type(part.value) is int


_WHOLE = syntax.Slice()


def _joined(first: tuple[syntax.Expr, ...], second: tuple[syntax.Expr, ...]) -> list[syntax.Expr] | None:
    """The index that does what two do one after the other."""
    made = list(first)
    axes = [place for place, part in enumerate(first) if isinstance(part, syntax.Slice)]
    for number, part in enumerate(second):
        if number >= len(axes):
            made.append(part)
        elif made[axes[number]] == _WHOLE:
            made[axes[number]] = part
        elif part != _WHOLE:
            return None
    return made


def with_whole_lists(expression: syntax.Expr, lengths: dict[str, int]) -> syntax.Expr:
    """``parts`` for ``[parts[0], parts[1], parts[2]]``, where that is all of it.

    Args:
        expression: source.
        lengths: of the parameters that are lists.
    """

    def whole(node: syntax.Node) -> syntax.Node:
        if not isinstance(node, syntax.List):
            return node
        found = [_item(element) for element in node.elts]
        names = {name for name, _ in found}
        if len(names) != 1:
            return node
        name = names.pop()
        is_whole = name in lengths and [place for _, place in found] == list(range(lengths[name]))
        return syntax.Name(name) if is_whole else node

    return syntax.transformed(expression, whole) if lengths else expression


def _item(element: syntax.Expr) -> tuple[str, int]:
    match element:
        case syntax.Subscript(syntax.Name(name), syntax.Const(int(place))):
            return name, place
    return "", -1
