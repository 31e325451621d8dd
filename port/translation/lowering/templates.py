"""Specialise a pair's expression for its arguments, by partial evaluation.

`specialised` evaluates the parts of a template that need no array: ``[*range(size, tensor.shape[dim], size)]`` becomes
``[2, 4]``, ``value or 0`` becomes 0.5, ``input[*(slice(None),) * (dim % input.ndim), start:end]`` becomes
``input[:, 1:]``. The rest is emitted as source.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import literal
from port.translation.ir.origin_numbers import with_origin

_BUILTINS = {
    name: getattr(builtins, name)
    for name in (
        *("abs", "float", "int", "isinstance", "len", "list", "max", "min", "range", "reversed", "slice", "sorted"),
        *("sum", "tuple", "zip", "str", "bool"),
    )
}
_EVALUATED = (
    *(syntax.BinOp, syntax.Subscript, syntax.Call, syntax.ListComp, syntax.GeneratorExp, syntax.Compare),
    syntax.UnaryOp,
)
_NO_NUMBER = (syntax.Attribute, syntax.Lambda)


@dataclass(frozen=True)
class Array:
    """A variable that is an array.

    Attributes:
        rank: its number of axes.
        shape: its lengths, to emit as numbers; None for a length to read from the array.
    """

    rank: int
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Length:
    """A variable that is a symbolic length."""


@dataclass(frozen=True)
class Other:
    """A variable that is neither an array nor a number, such as a dtype."""


@dataclass(frozen=True)
class SourceFragment:
    """A variable, or an item of one, that is source in terms of the others: ``input.shape[1]``, ``*input.shape[:2]``.

    Attributes:
        text: the source.
        named: for a length, the original's expression, which is emitted where its names are in scope.
        key: identifies such a length within the run.
    """

    text: str
    named: syntax.Expr | None = None
    key: str = ""


def specialised(template: str, variables: Mapping[str, Any]) -> syntax.Expr:
    """Evaluate the parts of a template that depend only on numbers; the remaining variables become holes.

    Args:
        template: an expression.
        variables: `Array`, `Length`, `Other`, `SourceFragment`, a number, a string, None, or a tuple of these; the
            hole of item ``k`` of a tuple is called ``name_k``.
    """
    return syntax.transformed(_parsed(template, tuple(variables)), _Specialising(variables).of)


@cache
def _parsed(template: str, variables: tuple[str, ...]) -> syntax.Expr:
    return syntax.parsed(template, variables)


class _Symbol:
    """A stand-in for an array or a length during evaluation; a sum of lengths is source again."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: syntax.Expr, is_length: bool) -> None:
        self.node, self.is_length = node, is_length

    def __add__(self, other: Any) -> _Symbol:
        return self._sum(self, other)

    def __radd__(self, other: Any) -> _Symbol:
        return self._sum(other, self)

    def _sum(self, left: Any, right: Any) -> _Symbol:
        if not all(end.is_length if isinstance(end, _Symbol) else isinstance(end, int) for end in (left, right)):
            raise TypeError("not a number")
        if any(isinstance(end, int) and end == 0 for end in (left, right)):
            return self
        return _Symbol(syntax.BinOp(_expression(left), "+", _expression(right)), True)

    def __eq__(self, other: object) -> bool:
        raise TypeError("equality of a symbolic length is unknown")

    def __bool__(self) -> bool:
        raise TypeError("truth of a symbolic length is unknown")


def _expression(thing: Any) -> syntax.Expr:
    """Return the expression for an evaluated value.

    Raises:
        TypeError: the value has no literal.
    """
    match thing:
        case _Symbol():
            return thing.node
        case list():
            return syntax.List(tuple(map(_expression, thing)))
        case tuple() | range():
            return syntax.Tuple(tuple(map(_expression, thing)))
        case slice():
            ends = (thing.start, thing.stop, thing.step)
            return syntax.Slice(*(None if end is None else _expression(end) for end in ends))
        case int() if not isinstance(thing, bool):
            return syntax.Const(thing)  # also if negative, so that further evaluation sees a number
    return literal(thing)


class _Specialising:
    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.symbols: dict[str, _Symbol] = {}
        self.arrays: dict[str, Array] = {}

    def of(self, node: syntax.Node) -> syntax.Node:
        """Specialise a node whose parts are already specialised."""
        match node:
            case syntax.Hole(name) if name in self.variables:
                return self._filling(name, self.variables[name])
            case syntax.Attribute(syntax.Hole(name), "ndim") if name in self.arrays:
                return syntax.Const(self.arrays[name].rank)
            case syntax.Subscript(syntax.Attribute(syntax.Hole(name), "shape"), syntax.Const(int(place))):
                array = self.arrays.get(name)
                length = array.shape[place] if array is not None and array.shape else None
                return node if length is None else syntax.Const(length)
            case syntax.Subscript(value, syntax.Tuple((only,))):
                return syntax.Subscript(value, only)  # x[i] for x[i,]
            case syntax.Slice(lower, upper, step):
                return syntax.Slice(_end(lower), _end(upper), None if step == syntax.Const(1) else _end(step))
            case syntax.IfExp(syntax.Const(test), body, orelse):
                return body if test else orelse
            case syntax.BoolOp(op, (syntax.Const() as first, *rest)):
                if bool(first.value) == (op == "or"):
                    return first
                return self.of(syntax.BoolOp(op, tuple(rest))) if len(rest) > 1 else rest[0]
            case syntax.List(items) | syntax.Tuple(items):
                return replace(node, elts=_unstarred(items))
            case syntax.Call(args=arguments):
                return self._evaluated(replace(node, args=_unstarred(arguments)))
            case syntax.BinOp(syntax.Const() as left, "*", right) if left == syntax.Const(1):
                return right  # a factor of 1 is omitted
            case syntax.Expr() if isinstance(node, _EVALUATED):
                return self._evaluated(node)
        return node

    def _filling(self, name: str, variable: Any) -> syntax.Expr:
        match variable:
            case Array() | Length() | Other():
                known = syntax.Hole(name)
                self.symbols[name] = _Symbol(known, isinstance(variable, Length))
                if isinstance(variable, Array):
                    self.arrays[name] = variable
                return known
            case SourceFragment(text, named, key):
                made = _parsed(f"({text},)", tuple(self.variables))
                assert isinstance(made, syntax.Tuple)
                return made.elts[0] if named is None else syntax.SaidLength(named, made.elts[0], key)
            case tuple() | list():
                return syntax.Tuple(tuple(self._filling(f"{name}_{k}", item) for k, item in enumerate(variable)))
        return _expression(variable)

    def _evaluated(self, node: syntax.Expr) -> syntax.Expr:
        nodes = list(syntax.walk(node))
        bound = {n.id for c in nodes if isinstance(c, syntax.Comprehension) for n in _names(c.target)}
        if any(isinstance(inner, _NO_NUMBER) for inner in nodes) or any(
            name.id not in bound and name.id not in _BUILTINS for name in _names(*nodes[:1])
        ):
            return node
        numbers: dict[str, Any] = {}

        def named(inner: syntax.Node) -> syntax.Node:
            match inner:
                case syntax.Hole(name):
                    return syntax.Name(name)
                case syntax.Const(value, origin=origin) if origin is not None:
                    name = f"number_{len(numbers)}_"
                    numbers[name] = with_origin(value, origin)
                    return syntax.Name(name)
            return inner

        tree = syntax.transformed(node, named)
        try:
            return _expression(
                eval(syntax.compiled(tree), {"__builtins__": {}, **_BUILTINS, **self.symbols, **numbers})
            )
        except Exception:  # it depends on an array
            return node


def _names(*nodes: syntax.Node) -> list[syntax.Name]:
    return [node for node in syntax.walk(*nodes) if isinstance(node, syntax.Name)]


def _end(end: syntax.Expr | None) -> syntax.Expr | None:
    return None if end == syntax.Const(None) else end


def _unstarred(items: tuple[syntax.Expr, ...]) -> tuple[syntax.Expr, ...]:
    """Flatten ``a, *(b, c)`` to ``a, b, c``."""
    made: list[syntax.Expr] = []
    for item in items:
        match item:
            case syntax.Starred(syntax.Tuple(inner) | syntax.List(inner)):
                made += inner
            case _:
                made.append(item)
    return tuple(made)
