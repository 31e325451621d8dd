"""Numbers that carry their origin through arithmetic.

They are subclasses of Python's numbers that compare, hash and print like them. Code that does not know of origins thus
passes them on: a torch module constructed with them, or a rule that computes a shape. The origin is lost where only the
value is read: ``int(x)``, ``math.sqrt(x)``, and ``0.5 * x`` with an integer x.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from port.translation.ir.origin import LiteralAt, Origin, WorkedOut

_MOST = 12
"""The greatest number of leaves of an origin; longer expressions would not be readable."""


class OriginInt(int):
    """An integer with its origin."""

    origin: Origin

    def __new__(cls, value: int, origin: Origin) -> OriginInt:
        made = super().__new__(cls, value)
        made.origin = origin
        return made

    def __getnewargs__(self) -> tuple[int, Origin]:  # type: ignore[override]
        return int(self), self.origin


class OriginFloat(float):
    """A float with its origin."""

    origin: Origin

    def __new__(cls, value: float, origin: Origin) -> OriginFloat:
        made = super().__new__(cls, value)
        made.origin = origin
        return made

    def __getnewargs__(self) -> tuple[float, Origin]:  # type: ignore[override]
        return float(self), self.origin


class OriginBool(int):
    """A bool with its origin, as the integer 0 or 1: Python's bool cannot be subclassed."""

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
    """Attach an origin to a number or a bool; return other values unchanged."""
    if origin is None:
        return value
    if isinstance(value, bool):
        return OriginBool(value, origin)
    if isinstance(value, int):
        return OriginInt(value, origin)
    return OriginFloat(value, origin) if isinstance(value, float) else value


def plain(number: Any) -> Any:
    """Return a number without its origin."""
    match number:
        case OriginInt():
            return int(number)
        case OriginFloat():
            return float(number)
        case OriginBool():
            return bool(number)
    return number


def origin_of(number: Any) -> Origin | None:
    """Return a number's origin; None if it carries none."""
    return number.origin if isinstance(number, OriginInt | OriginFloat | OriginBool) else None


def worked_out(symbol: str, function: Callable[..., Any], *operands: Any) -> Any:
    """Apply a function to numbers, and attach the result's origin.

    Args:
        symbol: the Python operator, or the function's name.
        function: a function of plain numbers.
        operands: numbers, at least one with an origin.
    """
    value = function(*map(plain, operands))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    origins = [origin_of(operand) or LiteralAt(operand) for operand in operands]
    return value if sum(map(_size, origins)) > _MOST else with_origin(value, WorkedOut(symbol, tuple(origins)))


def _size(origin: Origin) -> int:
    return sum(map(_size, origin.operands)) if isinstance(origin, WorkedOut) else 1


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods for ``self + other`` and ``other + self``."""

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
_UNARY_OPERATORS: dict[str, tuple[str, Callable[[Any], Any]]] = {
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
    for _name, _function in _UNARY_OPERATORS.items():
        setattr(_class, f"__{_name}__", _unary(*_function))
