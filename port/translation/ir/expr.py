"""Source as syntax trees: templates with holes, and names that stand for values and for what the module holds."""

from __future__ import annotations

import ast
import copy
import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from port.translation.ir.graph import Value

VALUE, HELD = "%", "@"
ITEM = "item_of"
"""The function that stands for taking an item of a tree, which is no axis of an array: see `item_of`."""

# What torch.finfo told of float64, in which the module was captured, holds of the dtype that it runs in.
_LIMITS = {sys.float_info.max: "max", sys.float_info.epsilon: "eps", sys.float_info.min: "tiny"}


def ref(value: Value) -> ast.Name:
    """The name that stands for a value until it has one."""
    return ast.Name(f"{VALUE}{value.name}")


def held(path: str, attribute: str = "") -> ast.Name:
    """What stands for the module at a path of the original, or for an attribute of its twin."""
    return ast.Name(f"{HELD}{path}|{attribute}")


def item_of(tree: ast.expr, key: Any) -> ast.expr:
    """What stands for ``tree[key]`` where the tree is a tuple, a list or a dict, until `with_items`."""
    return ast.Call(ast.Name(ITEM), [tree, literal(key)], [])


def with_items(expression: ast.expr) -> ast.expr:
    """An expression in which ``tree[key]`` stands for what `item_of` made."""
    result: ast.expr = _Items().visit(expression)
    return result


def code(template: str, **holes: Any) -> ast.expr:
    """An expression: a template in which the names of the holes are replaced."""
    return filled(_parsed(template), {name: literal(hole) for name, hole in holes.items()})


@cache
def _parsed(template: str) -> ast.expr:
    return ast.parse(template, mode="eval").body


def filled(tree: ast.expr, holes: dict[str, ast.expr]) -> ast.expr:
    """A copy of an expression with names replaced; names of keyword arguments stay."""
    result: ast.expr = _Filling(holes).visit(copy.deepcopy(tree))
    return result


def literal(thing: Any) -> ast.expr:
    """The expression for a value, a number, a string, or a tuple, list or dict of such.

    Raises:
        NoSource: it is none of these.
    """
    match thing:
        case ast.expr():
            return thing
        case Value():
            return ref(thing)
        case tuple():
            return ast.Tuple([literal(item) for item in thing], ast.Load())
        case list():
            return ast.List([literal(item) for item in thing], ast.Load())
        case dict():
            return ast.Dict([literal(key) for key in thing], [literal(item) for item in thing.values()])
        case float() if abs(thing) in _LIMITS:
            number = code(f"jnp.finfo(jnp.result_type(float)).{_LIMITS[abs(thing)]}")
            return number if thing > 0 else ast.UnaryOp(ast.USub(), number)
        case float() if not math.isfinite(thing):
            return ast.parse({"inf": "jnp.inf", "-inf": "-jnp.inf"}.get(str(thing), "jnp.nan"), mode="eval").body
        case int() | float() if not isinstance(thing, bool) and thing < 0:
            return ast.UnaryOp(ast.USub(), ast.Constant(-thing))
        case complex() if thing.real:
            return ast.BinOp(literal(thing.real), ast.Add(), ast.Constant(complex(0, thing.imag)))
        case np.dtype():
            return code(f"jnp.{'bool_' if thing.kind == 'b' else thing.name}")
        case slice():
            return ast.Slice(
                *(None if part is None else literal(part) for part in (thing.start, thing.stop, thing.step))
            )
        case None | bool() | int() | float() | complex() | str() | bytes():
            return ast.Constant(thing)
        case _ if thing is ...:
            return ast.Constant(thing)
    raise NoSource(thing)


class NoSource(TypeError):
    """Something that no expression can say: an object of the user's own."""

    def __init__(self, thing: Any) -> None:
        super().__init__(f"no source for {thing!r}")
        self.thing = thing


def named(tree: ast.AST, prefix: str) -> Iterator[str]:
    """The names with a prefix in a tree, from left to right, each as often as it stands there."""
    for node in _in_order(tree):
        if isinstance(node, ast.Name) and node.id.startswith(prefix):
            yield node.id.removeprefix(prefix)


def values_in(tree: ast.AST) -> list[str]:
    """The names of the values that an expression takes."""
    return list(named(tree, VALUE))


def renamed(tree: Any, function: Callable[[ast.Name], ast.expr]) -> Any:
    """A copy with every name of a value, or of something held, replaced."""
    return _Renaming(function).visit(copy.deepcopy(tree))


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _in_order(child)


class _Items(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[tree, key]) if name == ITEM:
                return ast.Subscript(tree, key, ast.Load())
        return node


class _Filling(ast.NodeTransformer):
    def __init__(self, holes: dict[str, ast.expr]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.holes[node.id]) if node.id in self.holes else node


class _Renaming(ast.NodeTransformer):
    def __init__(self, function: Callable[[ast.Name], ast.expr]) -> None:
        self.function = function

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.function(node) if node.id[:1] in (VALUE, HELD) else node
