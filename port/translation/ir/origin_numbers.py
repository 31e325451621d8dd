"""Numbers that remember where they come from, through all that is worked out of them.

To whoever takes them they are Python's own: equal, hashed and printed alike. So code that knows nothing of origins
hands them on, as a torch module does that is constructed with them, or a rule that works out a shape. What only reads
their value forgets the origin: ``int(x)``, ``math.sqrt(x)``, and ``0.5 * x`` of a whole number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from port.translation.ir.origin import LiteralAt, Origin, WorkedOut

_MOST = 12
"""Operands of what an origin is worked out from; longer ones nobody would write."""


class OriginInt(int):
    """A whole number and its origin."""

    origin: Origin

    def __new__(cls, value: int, origin: Origin) -> OriginInt:
        made = super().__new__(cls, value)
        made.origin = origin
        return made

    def __getnewargs__(self) -> tuple[int, Origin]:  # type: ignore[override]
        return int(self), self.origin


class OriginFloat(float):
    """A float and its origin."""

    origin: Origin

    def __new__(cls, value: float, origin: Origin) -> OriginFloat:
        made = super().__new__(cls, value)
        made.origin = origin
        return made

    def __getnewargs__(self) -> tuple[float, Origin]:  # type: ignore[override]
        return float(self), self.origin


class OriginBool(int):
    """Whether something is so, and its origin. Python lets nothing derive from bool: it is 0 or 1."""

    origin: Origin

    def __new__(cls, value: bool, origin: Origin) -> OriginBool:
        made = super().__new__(cls, bool(value))
        made.origin = origin
        return made

    def __getnewargs__(self) -> tuple[bool, Origin]:  # type: ignore[override]
        return bool(self), self.origin

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


OriginNumber: TypeAlias = "OriginInt | OriginFloat | OriginBool"


def with_origin(value: Any, origin: Origin | None) -> Any:
    """A number, or a bool, that remembers its origin; other things are left."""
    if origin is None:
        return value
    if isinstance(value, bool):
        return OriginBool(value, origin)
    if isinstance(value, int):
        return OriginInt(value, origin)
    return OriginFloat(value, origin) if isinstance(value, float) else value


def plain(number: Any) -> Any:
    """A number without its origin."""
    match number:
        case OriginInt():
            return int(number)
        case OriginFloat():
            return float(number)
        case OriginBool():
            return bool(number)
    return number


def origin_of(number: Any) -> Origin | None:
    """Where a number comes from, if it remembers that."""
    return number.origin if isinstance(number, OriginInt | OriginFloat | OriginBool) else None


def worked_out(symbol: str, function: Callable[..., Any], *operands: Any) -> Any:
    """What a function gives of numbers, with its origin.

    Args:
        symbol: the operator as Python writes it, or the function's name.
        function: of plain numbers.
        operands: one of them remembers its origin.
    """
    value = function(*map(plain, operands))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    origins = [origin_of(operand) or LiteralAt(operand) for operand in operands]
    return value if sum(map(_size, origins)) > _MOST else with_origin(value, WorkedOut(symbol, tuple(origins)))


def _size(origin: Origin) -> int:
    return sum(map(_size, origin.operands)) if isinstance(origin, WorkedOut) else 1


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods for ``self + other`` and for ``other + self``."""

    def method(self: Any, other: Any) -> Any:
        return worked_out(symbol, function, self, other) if isinstance(other, int | float) else NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return worked_out(symbol, function, other, self) if isinstance(other, int | float) else NotImplemented

    return method, reflected


def _unary(symbol: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        return worked_out(symbol, function, self)

    return method


_OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "truediv": ("/", operator.truediv),
    "floordiv": ("//", operator.floordiv),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
}
_OF_ONE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "neg": ("-", operator.neg),
    "abs": ("abs", abs),
    "round": ("round", round),
    "floor": ("math.floor", math.floor),
    "ceil": ("math.ceil", math.ceil),
}

for _class in (OriginInt, OriginFloat):
    for _name, _operator in _OPERATORS.items():
        _method, _reflected = _binary(*_operator)
        setattr(_class, f"__{_name}__", _method)
        setattr(_class, f"__r{_name}__", _reflected)
    for _name, _function in _OF_ONE.items():
        setattr(_class, f"__{_name}__", _unary(*_function))
