"""Build expressions: templates with holes, and literals."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import numpy as np

from port.translation.ir import syntax
from port.translation.ir.graph import Value

N = TypeVar("N", bound=syntax.Node)

# The module was captured in float64: a limit from torch.finfo becomes the limit of the dtype that it runs in.
_LIMITS = {sys.float_info.max: "max", sys.float_info.epsilon: "eps", sys.float_info.min: "tiny"}


def ref(value: Value) -> syntax.Use:
    """Return the placeholder for a value, until it has a name."""
    return syntax.Use(value.name)


def held(path: str, attribute: str = "") -> syntax.Attr:
    """Return the placeholder for the module at a path of the original, or for an attribute of its twin."""
    return syntax.Attr(path, attribute)


def item_of(tree: syntax.Expr, key: Any) -> syntax.Item:
    """Return ``tree[key]`` for a tree that is a tuple, a list or a dict."""
    return syntax.Item(tree, literal(key))


def code(template: str, /, **holes: Any) -> syntax.Expr:
    """Parse a template, and replace the names of its holes by literals of the keyword arguments."""
    tree = _parsed(template, tuple(holes))
    return filled(tree, {name: literal(hole) for name, hole in holes.items()}) if holes else tree


@cache
def _parsed(template: str, holes: tuple[str, ...]) -> syntax.Expr:
    return syntax.parsed(template, holes)


def filled(tree: N, holes: Mapping[str, syntax.Expr]) -> N:
    """Fill the holes of a tree; holes without a value stay."""

    def of(node: syntax.Node) -> syntax.Node:
        return holes.get(node.name, node) if isinstance(node, syntax.Hole) else node

    return syntax.transformed(tree, of)


def literal(thing: Any) -> syntax.Expr:
    """Return the expression for a value, a number, a string, or a tuple, list or dict of these.

    Raises:
        NoSource: ``thing`` is none of these.
    """
    match thing:
        case syntax.Expr():
            return thing
        case Value():
            return ref(thing)
        case Enum() if isinstance(thing, int | float | str):  # an IntEnum's member prints as `<Level.HIGH: 5>`
            return literal(thing.value)
        case tuple():
            return syntax.Tuple(tuple(map(literal, thing)))
        case list():
            return syntax.List(tuple(map(literal, thing)))
        case dict():
            return syntax.Dict(tuple(map(literal, thing)), tuple(map(literal, thing.values())))
        case float() if abs(thing) in _LIMITS:
            number = code(f"jnp.finfo(jnp.result_type(float)).{_LIMITS[abs(thing)]}")
            return number if thing > 0 else syntax.UnaryOp("-", number)
        case float() if not math.isfinite(thing):
            return code({"inf": "jnp.inf", "-inf": "-jnp.inf"}.get(str(thing), "jnp.nan"))
        case int() | float() if not isinstance(thing, bool) and thing < 0:
            return syntax.UnaryOp("-", syntax.Const(-thing))
        case complex() if thing.real:
            return syntax.BinOp(literal(thing.real), "+", syntax.Const(complex(0, thing.imag)))
        case np.dtype():
            return code(f"jnp.{'bool_' if thing.kind == 'b' else thing.name}")
        case slice():
            parts = (thing.start, thing.stop, thing.step)
            return syntax.Slice(*(None if part is None else literal(part) for part in parts))
        case None | bool() | int() | float() | complex() | str() | bytes():
            return syntax.Const(thing)
        case _ if thing is ...:
            return syntax.Const(thing)
    raise NoSource(thing)


class NoSource(TypeError):
    """An object without an expression, as an instance of a user's class."""

    def __init__(self, thing: Any) -> None:
        super().__init__(f"no source for {thing!r}")
        self.thing = thing


def worth(expression: syntax.Expr) -> Any:
    """Evaluate an expression of constants: a number, a string, or a tuple, list or dict of these.

    Raises:
        ValueError: the expression is not constant.
    """
    match expression:
        case syntax.Const(value):
            return value
        case syntax.Tuple(items):
            return tuple(map(worth, items))
        case syntax.List(items):
            return list(map(worth, items))
        case syntax.Dict(keys, values):
            return dict(zip(map(worth, keys), map(worth, values), strict=True))
        case syntax.UnaryOp("-", syntax.Const(int() | float() | complex() as number)):
            return -number
    raise ValueError(f"{syntax.source(expression)} is not a constant")


def dotted(expression: syntax.Expr) -> str:
    """Return a dotted name as text, ``"nnx.List"``; ``""`` for other expressions."""
    match expression:
        case syntax.Name(name):
            return name
        case syntax.Attribute(value, name):
            before = dotted(value)
            return before and f"{before}.{name}"
    return ""


def values_in(*trees: syntax.Node | None) -> list[str]:
    """Return the names of the values that expressions read, from left to right, with repetitions.

    For a length with two forms, those that the original's form reads.
    """
    return [node.name for tree in trees for node in syntax.walk(_as_said(tree)) if isinstance(node, syntax.Use)]


def _as_said(tree: syntax.Node | None) -> syntax.Node | None:
    def of(node: syntax.Node) -> syntax.Node:
        return node.said if isinstance(node, syntax.SaidLength) else node

    return None if tree is None else syntax.transformed(tree, of)


def names_in(*trees: syntax.Node | None) -> set[str]:
    """Return the names of the variables in trees."""
    return {node.id for node in syntax.walk(*trees) if isinstance(node, syntax.Name)}


def renamed(tree: N, function: Callable[[syntax.Use | syntax.Attr], syntax.Expr]) -> N:
    """Replace every `Use` and every `Attr` in a tree."""

    def of(node: syntax.Node) -> syntax.Node:
        return function(node) if isinstance(node, syntax.Use | syntax.Attr) else node

    return syntax.transformed(tree, of)
