"""Names for the constructor arguments of a folded class: the original's, wherever they can be found."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from port.translation.frontend.construction.function_trees import source_tree
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, code, literal, worth
from port.translation.structure.anti_unify import Difference, Holes
from port.translation.structure.name_hints import is_reserved

# Flax's argument → the names of the same argument in torch's layers.
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


OPTIONS = ("dtype", "param_dtype", "rngs")
"""The arguments that every constructor takes."""

_FORMULAS = (
    ("{}", lambda number: number),
    ("-{}", lambda number: -number),
    ("1 - {}", lambda number: 1 - number),
    ("{0} * {0}", lambda number: number * number),
    ("{} ** -0.5", lambda number: number**-0.5),
)


@dataclass(frozen=True)
class Named:
    """The name or formula that fills a hole.

    Attributes:
        name: the argument's name.
        order: its position among the original's arguments.
        default: its default in the original.
        formula: computes the hole's number from another hole's argument; None for an argument of its own.
    """

    name: str
    order: int
    default: syntax.Expr | None
    formula: str | None = None

    def written(self, prefix: str) -> syntax.Expr:
        """The expression, with a prefix such as ``self.`` before the name."""
        return code((self.formula or "{}").format(f"{prefix}{self.name}"))


def name_holes(
    holes: Holes,
    forms: list[Any],
    taken: set[str],
    kept: set[int],
    attributes: set[str],
    flags: Mapping[str, Mapping[str, syntax.Expr]] = MappingProxyType({}),
) -> list[Named]:
    """Find a name or formula for each hole.

    Args:
        holes: the differences between the instances.
        forms: the instances.
        taken: the names of other arguments.
        kept: numbers of the holes that the call reads: their arguments become attributes.
        attributes: names that those attributes cannot have.
        flags: arguments that become attributes in any case → instance path → value.
    """
    original = parameters(_class(forms))
    used = {*taken, *flags}
    names: list[str | None] = []
    for number, hole in enumerate(holes.found):
        name = _name(hole, forms, original, used | attributes if number in kept else used)
        used |= {name} if name else set()
        names.append(name)
    # A call can compute numbers from the attributes that keep an original argument's name.
    known = {name: tuple(worth(values[form.path]) for form in forms) for name, values in flags.items()}
    known |= {name: holes.found[number].values for number, name in enumerate(names) if name and number in kept}
    named: list[Named] = []
    for number, hole in enumerate(holes.found):
        name, formula = names[number], None
        if name is None and number in kept:
            name, formula = _worked_out(hole, known)
        if name is None:
            name = _free("_".join(_words(hole)) or "number", used | attributes if number in kept else used)
            used.add(name)
        named.append(Named(name, _order(name, original, len(named)), _default(hole, original.get(name)), formula))
    return named


def _order(name: str, original: dict[str, Any], number: int) -> int:
    return list(original).index(name) if name in original else len(original) + number


def _default(hole: Difference, default: Any) -> syntax.Expr | None:
    """The original's default, if some instance uses it; None as a literal if some instance lacks the number."""
    keeps = default is not None and default is not inspect.Parameter.empty and _is_plain(default)
    if keeps and any(type(value) is type(default) and value == default for value in hole.values):
        return literal(default)
    return literal(None) if any(value is None for value in hole.values) else None


def default_of(default: Any) -> syntax.Expr | None:
    """A parameter's default; None where it has none, or one that has no source form."""
    try:
        return None if default is inspect.Parameter.empty else literal(default)
    except NoSource:
        return None


def _worked_out(hole: Difference, known: dict[str, tuple[Any, ...]]) -> tuple[str | None, str | None]:
    """Find an argument that determines a hole's numbers in every instance that has them: its name, and the formula."""
    for formula, work_out in _FORMULAS:
        for name, values in known.items():
            pairs = [(mine, theirs) for mine, theirs in zip(hole.values, values, strict=True) if mine is not None]
            if all(_is_number(theirs) and _equal(mine, work_out, theirs) for mine, theirs in pairs):
                return name, formula
    return None, None


def _equal(mine: Any, work_out: Callable[[Any], Any], theirs: Any) -> bool:
    try:
        made = work_out(theirs)
    except (ArithmeticError, ValueError):
        return False
    return type(made) is type(mine) and bool(made == mine)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _class(forms: list[Any]) -> Any:
    return type(forms[0].module)


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def _name(hole: Difference, forms: list[Any], original: dict[str, Any], used: set[str]) -> str | None:
    """Find the original's name; else the keyword's or the attribute's; None for a number without a known place."""
    candidates = [
        *_from_source(hole, type(forms[0].module)),
        *_from_attributes(hole, forms, original),
        *_from_helper(hole, forms, original),
        *(_TORCHS.get(hole.where[-1], (hole.where[-1],)) if hole.where else ()),
    ]
    for name in candidates:
        if name in original and name not in used and not is_reserved(name):
            return name
    if words := _words(hole):
        return _free("_".join(words), used)
    own = [name for name in vars(forms[0].module) if name.isidentifier() and not name.startswith("_")]
    wanted = _from_attributes(hole, forms, own)
    return next((name for name in wanted if name not in used and not is_reserved(name)), None)


def _words(hole: Difference) -> list[str]:
    where = [part for part in hole.where if part and not part.isdigit()]
    return where[:1] + where[-1:] if len(where) > 1 else where


def _free(wanted: str, used: set[str]) -> str:
    name, number = wanted, 2
    while name in used or is_reserved(name) or name in OPTIONS:
        name, number = f"{wanted}{number}", number + 1
    return name


def _from_attributes(hole: Difference, forms: list[Any], names: Iterable[str]) -> list[str]:
    """The names under which the original's instances keep exactly these values."""
    found = []
    for name in names:
        values = [getattr(form.module, name, None) for form in forms]
        values = [
            value[0] if isinstance(value, tuple | list) and value and len(set(value)) == 1 else value
            for value in values
        ]
        if all(type(mine) is type(theirs) and mine == theirs for mine, theirs in zip(values, hole.values, strict=True)):
            found.append(name)
    return found


def _from_source(hole: Difference, cls: Any) -> list[str]:
    """Find the name used in the original's construction of the attribute, as this argument."""
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
    """The variable passed by position: layers take input size, output size, kernel size, stride in that order."""
    places = {"in_features": 0, "num_features": 0, "out_features": 1, "kernel_size": 2, "strides": 3, "padding": 4}
    place = places.get(keyword)
    if place is None or place >= len(call.args) or not isinstance(call.args[place], ast.Name):
        return []
    return [call.args[place].id]  # type: ignore[attr-defined]


def _from_helper(hole: Difference, forms: list[Any], original: dict[str, Any]) -> list[str]:
    """Find fitting names anywhere in the attribute's construction, in order."""
    call = _constructions(_class(forms)).get(hole.where[0]) if hole.where else None
    if call is None or hole.where[-1] not in ("strides", "kernel_size", "padding", "feature_group_count"):
        return []
    wanted = {"strides": "stride", "feature_group_count": "group", "kernel_size": "kernel"}.get(hole.where[-1], "pad")
    names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
    return [name for name in names if wanted in name]


@cache
def parameters(cls: Any) -> dict[str, Any]:
    """The named arguments of a class's constructor, each with its default."""
    try:
        return {
            name: parameter.default
            for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]  # type: ignore[misc]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
    except (TypeError, ValueError):
        return {}


def by_name_alone(cls: Any) -> set[str]:
    """The keyword-only arguments of a class's constructor."""
    taken = inspect.signature(cls.__init__).parameters if parameters(cls) else {}
    return {name for name, parameter in taken.items() if parameter.kind is parameter.KEYWORD_ONLY}


@cache
def _constructions(cls: Any) -> dict[str, ast.Call]:
    """The layers built in the original's constructor, ``self.name = Something(…)``: name → the call."""
    found: dict[str, ast.Call] = {}
    for node in ast.walk(source_tree(cls.__init__)):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as call):
                found.setdefault(name, call)
    return found
