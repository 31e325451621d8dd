"""A pair's expression for the arguments at hand: what numbers alone say is worked out, and what is left is source.

`specialised` evaluates the parts of a template that need no array: ``[*range(size, tensor.shape[dim], size)]`` is
``[2, 4]``, ``value or 0`` is 0.5, ``input[*(slice(None),) * (dim % input.ndim), start:end]`` is ``input[:, 1:]``.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

_BUILTINS = {
    name: getattr(builtins, name)
    for name in (
        *("abs", "float", "int", "isinstance", "len", "list", "max", "min", "range", "reversed", "slice", "sorted"),
        *("sum", "tuple", "zip", "str", "bool"),
    )
}
_EVALUATED = (ast.BinOp, ast.Subscript, ast.Call, ast.ListComp, ast.GeneratorExp, ast.Compare, ast.UnaryOp)


@dataclass(frozen=True)
class Array:
    """What is known of a variable that is an array.

    Attributes:
        rank: how many axes it has.
        shape: its lengths, where they are to be written as numbers; None for those that only the array says.
    """

    rank: int
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Length:
    """A variable that is a length which the inputs decide."""


@dataclass(frozen=True)
class Other:
    """A variable that is neither an array nor a number: a dtype."""


@dataclass(frozen=True)
class Source:
    """A variable, or an item of one, that is source over the others: ``input.shape[1]``, ``*input.shape[:2]``."""

    text: str


def specialised(template: str, variables: Mapping[str, Any]) -> tuple[str, dict[str, float | complex]]:
    """A template with its numbers worked out: its source, and the numbers that stand in it under names.

    Args:
        template: an expression.
        variables: `Array`, `Length`, `Other`, `Source`, a number, a string, None, or a tuple of such; item ``k`` of a
            tuple is called ``name_k`` in the result, where it is no number.
    """
    tree = _Specialising(variables).visit(copy.deepcopy(_parsed(template)))
    naming = _Naming()
    return ast.unparse(ast.fix_missing_locations(naming.visit(tree))), naming.numbers


@cache
def _parsed(template: str) -> ast.expr:
    return ast.parse(template, mode="eval").body


class _Naming(ast.NodeTransformer):
    """Names floats, some of which have no literal: an infinity."""

    def __init__(self) -> None:
        self.numbers: dict[str, float | complex] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, float | complex):
            return node
        name = f"number_{len(self.numbers)}"
        self.numbers[name] = node.value
        return ast.Name(name, ast.Load())


class _Symbol:
    """Stands for an array or a length while numbers are worked out: sums of lengths are source again."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: ast.expr, is_length: bool) -> None:
        self.node, self.is_length = node, is_length

    def _with(self, operator: ast.operator, left: Any, right: Any) -> Any:
        ends = [_said(end) for end in (left, right)]
        if not all(_is_of_numbers(end) for end in (left, right)):
            raise TypeError("no number")
        return _Symbol(ast.BinOp(ends[0], operator, ends[1]), True)

    def __add__(self, other: Any) -> Any:
        return self if self.is_length and _is_zero(other) else self._with(ast.Add(), self, other)

    def __radd__(self, other: Any) -> Any:
        return self if self.is_length and _is_zero(other) else self._with(ast.Add(), other, self)

    def __eq__(self, other: object) -> bool:
        raise TypeError("what it is equal to is not known yet")

    def __bool__(self) -> bool:
        raise TypeError("whether it is zero is not known yet")


def _is_zero(thing: Any) -> bool:
    return isinstance(thing, int) and thing == 0


def _is_of_numbers(thing: Any) -> bool:
    return thing.is_length if isinstance(thing, _Symbol) else isinstance(thing, int)


def _said(thing: Any) -> ast.expr:
    """The expression for something worked out.

    Raises:
        TypeError: there is none.
    """
    match thing:
        case _Symbol():
            return thing.node
        case list():
            return ast.List([_said(item) for item in thing], ast.Load())
        case tuple() | range():
            return ast.Tuple([_said(item) for item in thing], ast.Load())
        case slice():
            parts = (None if part is None else _said(part) for part in (thing.start, thing.stop, thing.step))
            return ast.Slice(*parts)
        case np.integer():
            return _said(int(thing))
        case None | bool() | int() | float() | complex() | str():
            return ast.Constant(thing)
    raise TypeError(f"no source for {thing!r}")


class _Specialising(ast.NodeTransformer):
    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.symbols: dict[str, _Symbol] = {}
        self.arrays: dict[str, Array] = {}

    def _array(self, node: ast.expr) -> Array | None:
        return self.arrays.get(node.id) if isinstance(node, ast.Name) else None

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._filling(node.id, self.variables[node.id]) if node.id in self.variables else node

    def _filling(self, name: str, variable: Any) -> ast.expr:
        match variable:
            case Array() | Length() | Other():
                known = ast.Name(name, ast.Load())
                self.symbols[name] = _Symbol(known, isinstance(variable, Length))
                if isinstance(variable, Array):
                    self.arrays[name] = variable
                return known
            case Source():
                (said,) = _parsed(f"({variable.text},)").elts  # type: ignore[attr-defined]
                return copy.deepcopy(said)  # type: ignore[no-any-return]
            case tuple() | list():
                return ast.Tuple([self._filling(f"{name}_{k}", item) for k, item in enumerate(variable)], ast.Load())
        return _said(variable)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        array = self._array(node.value)
        return ast.Constant(array.rank) if array is not None and node.attr == "ndim" else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Attribute(value=owner, attr="shape"), slice=ast.Constant(value=int(place))):
                array = self._array(owner)
                length = array.shape[place] if array is not None and array.shape else None
                if length is not None:
                    return ast.Constant(length)
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 1:
            node.slice = node.slice.elts[0]  # x[i] for x[i,]
        return self._worked_out(node)

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        self.generic_visit(node)
        step = None if node.step is not None and _is_one(node.step) else node.step
        return ast.Slice(*(None if _is_none(part) else part for part in (node.lower, node.upper, step)))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            chosen: ast.expr = self.visit(node.body if test.value else node.orelse)
            return chosen
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values = [self.visit(value) for value in node.values]
        while len(values) > 1 and isinstance(values[0], ast.Constant):
            if bool(values[0].value) == isinstance(node.op, ast.Or):
                return values[0]
            del values[0]
        return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)

    def generic_visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        if isinstance(node, ast.List | ast.Tuple):
            node.elts = [item for element in node.elts for item in _unstarred(element)]
        if isinstance(node, ast.Call):
            node.args = [item for argument in node.args for item in _unstarred(argument)]
        return self._worked_out(node) if isinstance(node, _EVALUATED) else node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        made = self.generic_visit(node)
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult) and _is_one(made.left):
            return made.right  # a factor that is given as 1 is not written
        return made

    def _worked_out(self, node: Any) -> Any:
        bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - bound - set(_BUILTINS)
        if not names <= set(self.symbols) or any(isinstance(n, ast.Attribute | ast.Lambda) for n in ast.walk(node)):
            return node
        try:
            compiled = compile(ast.fix_missing_locations(ast.Expression(node)), "template", "eval")
            return _said(eval(compiled, {"__builtins__": {}, **_BUILTINS, **self.symbols}))
        except Exception:  # it needs what only the arrays have
            return node


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def _unstarred(element: ast.expr) -> list[ast.expr]:
    if isinstance(element, ast.Starred) and isinstance(element.value, ast.Tuple | ast.List):
        return element.value.elts
    return [element]
