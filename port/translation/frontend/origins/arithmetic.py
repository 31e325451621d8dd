"""Arithmetic on numbers whose origin is known."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import Origin, WorkedOut

_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}
_SIGNS: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("-", operator.neg),
    ast.UAdd: ("+", operator.pos),
}
_FUNCTIONS: dict[Any, str] = {
    **{function: function.__name__ for function in (abs, float, int, max, min, round)},
    **{function: f"math.{function.__name__}" for function in (math.ceil, math.floor, math.log, math.log2, math.sqrt)},
}


def combined(kind: ast.operator, left: Resolved, right: Resolved) -> Resolved:
    """Apply a binary operator; ``+`` concatenates tuples and lists."""
    if isinstance(kind, ast.Add):
        one, other = left.each_item(), right.each_item()
        if one is not None and other is not None:
            return Resolved(items=(*one, *other))
    known = _OPERATORS.get(type(kind))
    return Resolved() if known is None else _worked_out(*known, (left, right))


def signed(kind: ast.unaryop, operand: Resolved) -> Resolved:
    """Apply a sign."""
    known = _SIGNS.get(type(kind))
    return Resolved() if known is None else _worked_out(*known, (operand,))


def called(function: Any, operands: Sequence[Resolved]) -> Resolved:
    """Apply one of Python's numeric functions, such as ``int`` or ``math.sqrt``."""
    try:
        name = _FUNCTIONS.get(function)
    except TypeError:  # it cannot be hashed
        return Resolved()
    return Resolved() if name is None else _worked_out(name, function, operands)


def is_number(value: Any) -> bool:
    """Whether a value is a plain Python number; a symbolic number, which must not be tested, is not."""
    return type(value) in (bool, int, float)


def _worked_out(name: str, function: Callable[..., Any], operands: Sequence[Resolved]) -> Resolved:
    if not operands or not all(is_number(operand.value) for operand in operands):
        return Resolved()
    if name == "**" and abs(operands[1].value) > 64:
        return Resolved()
    try:
        value = function(*(operand.value for operand in operands))
    except (ArithmeticError, TypeError, ValueError):
        return Resolved()
    origins: list[Origin] = [operand.origin for operand in operands if operand.origin is not None]
    if not is_number(value):
        return Resolved()
    return Resolved(value, WorkedOut(name, tuple(origins)) if len(origins) == len(operands) else None)
