"""Type annotations for the arguments and results of calls."""

from __future__ import annotations

from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import values_in
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.origin_numbers import plain
from port.translation.structure.call_tree import Call

RETURN = "return"


def annotations_of(call: Call, lowered: LoweredGraph) -> dict[str, str]:
    """Annotations of a call's parameters, by their names, and of its results, as ``"return"``."""
    return {name: _annotation(value, lowered) for name, value in {**call.parameters, RETURN: call.results}.items()}


def _annotation(given: Any, lowered: LoweredGraph) -> str:
    match given:
        case None | syntax.Const(None):
            return "None"
        case syntax.Use(name) if name in lowered.values:
            return "int" if lowered.values[name].shape is None else _ARRAY
        case syntax.Const(bool() | int() | float() | str() as constant):
            return type(constant).__name__
        case bool() | int() | float() | str():
            return type(plain(given)).__name__
        case syntax.Expr():
            return _ARRAY
    inside = {_annotation(item, lowered) for item in _items(given)}
    if type(given) not in (list, tuple, dict) or len(inside) != 1 or "Any" in inside:
        return "Any"
    what = inside.pop()
    if isinstance(given, dict):
        return f"dict[str, {what}]" if all(isinstance(key, str) for key in given) else "Any"
    return f"list[{what}]" if isinstance(given, list) else f"tuple[{what}, ...]"


_ARRAY = "jax.Array"


def _items(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, dict) else list(given) if isinstance(given, list | tuple) else []


def numbers_given(call: Call, lowered: LoweredGraph) -> dict[str, str]:
    """Find the parameters of a call that receive whole numbers, such as lengths: their names → their annotations.

    Where arrays are mixed with the numbers, the annotation is ``""``.
    """
    found = {}
    for name, given in call.parameters.items():
        kinds = _kinds(given, lowered)
        if "number" in kinds:
            single = "int" if isinstance(given, syntax.Expr) else "Any"
            found[name] = single if kinds == {"number"} else ""
    return found


def _kinds(given: Any, lowered: LoweredGraph) -> set[str]:
    match given:
        case syntax.Expr():
            known = (lowered.values[name] for name in values_in(given) if name in lowered.values)
            return {"number" if value.shape is None else "array" for value in known}
        case dict():
            return _kinds(tuple(given.values()), lowered)
        case tuple() | list():
            return set[str]().union(*(_kinds(item, lowered) for item in given))
    return set()
