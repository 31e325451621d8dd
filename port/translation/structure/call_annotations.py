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


def _annotation(value: Any, lowered: LoweredGraph) -> str:
    match value:
        case None | syntax.Const(None):
            return "None"
        case syntax.Use(name) if name in lowered.values:
            return "int" if lowered.values[name].shape is None else _ARRAY
        case syntax.Const(bool() | int() | float() | str() as constant):
            return type(constant).__name__
        case bool() | int() | float() | str():
            return type(plain(value)).__name__
        case syntax.Expr():
            return _ARRAY
    inside = {_annotation(item, lowered) for item in _items(value)}
    if type(value) not in (list, tuple, dict) or len(inside) != 1 or "Any" in inside:
        return "Any"
    what = inside.pop()
    if isinstance(value, dict):
        return f"dict[str, {what}]" if all(isinstance(key, str) for key in value) else "Any"
    return f"list[{what}]" if isinstance(value, list) else f"tuple[{what}, ...]"


_ARRAY = "jax.Array"


def _items(tree: Any) -> list[Any]:
    return list(tree.values()) if isinstance(tree, dict) else list(tree) if isinstance(tree, list | tuple) else []


def number_parameters(call: Call, lowered: LoweredGraph) -> dict[str, str]:
    """Find the parameters of a call that receive whole numbers, such as lengths: their names → their annotations.

    Where arrays are mixed with the numbers, the annotation is ``""``.
    """
    found = {}
    for name, argument in call.parameters.items():
        kinds = _kinds(argument, lowered)
        if "number" in kinds:
            single = "int" if isinstance(argument, syntax.Expr) else "Any"
            found[name] = single if kinds == {"number"} else ""
    return found


def _kinds(argument: Any, lowered: LoweredGraph) -> set[str]:
    match argument:
        case syntax.Expr():
            known = (lowered.values[name] for name in values_in(argument) if name in lowered.values)
            return {"number" if value.shape is None else "array" for value in known}
        case dict():
            return _kinds(tuple(argument.values()), lowered)
        case tuple() | list():
            return set[str]().union(*(_kinds(item, lowered) for item in argument))
    return set()
