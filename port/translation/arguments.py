"""Names for the arguments of a folded class's constructor: the original's own, wherever they can be found."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Any

from port.translation.code import literal
from port.translation.naming import RESERVED
from port.translation.unifying import Hole, Holes

# Flax's argument → what torch's layers call it.
_TORCHS = {
    "in_features": ("in_channels", "in_features", "input_size"),
    "out_features": ("out_channels", "out_features"),
    "strides": ("stride",),
    "kernel_dilation": ("dilation",),
    "feature_group_count": ("groups",),
    "num_features": ("num_features", "normalized_shape", "num_channels"),
    "features": ("embedding_dim",),
    "epsilon": ("eps",),
    "rate": ("p",),
    "use_bias": ("bias",),
    "bias_init": ("in_channels", "in_features"),
}


@dataclass(frozen=True)
class Named:
    """A hole's name, its place among the original's arguments, and its default there."""

    name: str
    order: int
    default: ast.expr | None


def name_holes(holes: Holes, forms: list[Any], taken: set[str], kept: set[int], attributes: set[str]) -> list[Named]:
    """A name for each hole; for those that are kept as attributes, none of an attribute's."""
    original = parameters(_class(forms))
    used = set(taken)
    named: list[Named] = []
    for number, hole in enumerate(holes.found):
        name = _name(hole, forms, original, used | attributes if number in kept else used)
        used.add(name)
        default = original.get(name)
        keeps = default is not None and default is not inspect.Parameter.empty and _is_plain(default)
        keeps = keeps and any(type(value) is type(default) and value == default for value in hole.values)
        order = list(original).index(name) if name in original else len(original) + len(named)
        lacking = any(value is None for value in hole.values)
        named.append(Named(name, order, literal(default) if keeps else literal(None) if lacking else None))
    return named


def _class(forms: list[Any]) -> Any:
    return type(forms[0].module)


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _name(hole: Hole, forms: list[Any], original: dict[str, Any], used: set[str]) -> str:
    candidates = [
        *_from_source(hole, type(forms[0].module)),
        *_from_attributes(hole, forms, original),
        *_from_helper(hole, forms, original),
        *(_TORCHS.get(hole.where[-1], (hole.where[-1],)) if hole.where else ()),
    ]
    for name in candidates:
        if name in original and name not in used and name not in RESERVED:
            return name
    where = [part for part in hole.where if part and not part.isdigit()]
    wanted = "_".join(where[:1] + where[-1:]) if len(where) > 1 else (where[0] if where else "number")
    name, number = wanted, 2
    while name in used or name in RESERVED or name in ("dtype", "param_dtype", "rngs"):
        name, number = f"{wanted}{number}", number + 1
    return name


def _from_attributes(hole: Hole, forms: list[Any], original: dict[str, Any]) -> list[str]:
    """Arguments that the original keeps under their own names, with just these values."""
    found = []
    for name in original:
        values = [getattr(form.module, name, None) for form in forms]
        values = [
            value[0] if isinstance(value, tuple | list) and value and len(set(value)) == 1 else value
            for value in values
        ]
        if all(type(mine) is type(theirs) and mine == theirs for mine, theirs in zip(values, hole.values, strict=True)):
            found.append(name)
    return found


def _from_source(hole: Hole, cls: Any) -> list[str]:
    """The name that stands in the original's own construction of the attribute, in this argument's place."""
    if len(hole.where) < 2:
        return []
    call = _constructions(cls).get(hole.where[0])
    if call is None:
        return []
    wanted = _TORCHS.get(hole.where[-1], (hole.where[-1],))
    return [
        keyword.value.id for keyword in call.keywords if keyword.arg in wanted and isinstance(keyword.value, ast.Name)
    ] + _positional(call, hole.where[-1])


def _positional(call: ast.Call, keyword: str) -> list[str]:
    """Layers take what comes in first, what goes out second, then the window and its stride."""
    places = {"in_features": 0, "num_features": 0, "out_features": 1, "kernel_size": 2, "strides": 3, "padding": 4}
    place = places.get(keyword)
    if place is None or place >= len(call.args) or not isinstance(call.args[place], ast.Name):
        return []
    return [call.args[place].id]  # type: ignore[attr-defined]


def _from_helper(hole: Hole, forms: list[Any], original: dict[str, Any]) -> list[str]:
    """The names that stand in the attribute's construction, in their order."""
    call = _constructions(_class(forms)).get(hole.where[0]) if hole.where else None
    if call is None or hole.where[-1] not in ("strides", "kernel_size", "padding", "feature_group_count"):
        return []
    wanted = {"strides": "stride", "feature_group_count": "group", "kernel_size": "kernel"}.get(hole.where[-1], "pad")
    names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
    return [name for name in names if wanted in name]


@cache
def parameters(cls: Any) -> dict[str, Any]:
    """The arguments of a class's constructor that have a name, each with its default."""
    try:
        return {
            name: parameter.default
            for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]  # type: ignore[misc]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
    except (TypeError, ValueError):
        return {}


@cache
def _constructions(cls: Any) -> dict[str, ast.Call]:
    """``self.name = Something(…)`` in the original's constructor: name → the call."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))  # type: ignore[misc]
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, ast.Call] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as call):
                found.setdefault(name, call)
    return found
