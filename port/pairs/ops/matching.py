"""Matching ATen nodes to operator pairs, with the values of the pairs' variables."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import torch

from port.pairs.ops import GIVEN, OPERATORS, OperatorPair
from port.pairs.ops.aliases import meaning_of
from port.pairs.ops.axes import Along, Axes, Over
from port.pairs.registered import registered

# Placement does not affect values.
_PLACES = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy")
# Options that are integers in ATen and strings in torch's functions.
_NUMBERED = {
    "reduction": ("none", "mean", "sum"),
    "interpolation_mode": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}
_NOTHING = object()


def matching(aten: str, arguments: Mapping[str, Any]) -> tuple[OperatorPair, dict[str, Any]] | None:
    """Return the first pair that matches a node, and its variables; None without one.

    Args:
        aten: the operator with its overload, as ``"aten.add.Tensor"``.
        arguments: all arguments by their names in ATen's schema, including defaults. Tensors are objects with
            ``shape``, ``ndim`` and a NumPy ``dtype``; sizes may be symbolic.

    Returns:
        The pair, and the values of its ``says``' variables: lists as tuples, dtypes as NumPy's, reductions and modes as
        strings, the rest unchanged.
    """
    base = aten.rpartition(".")[0]
    if "unbiased" in arguments:  # the older form of correction 1 or 0
        rest = {name: value for name, value in arguments.items() if name != "unbiased"}
        arguments = {**rest, "correction": int(arguments["unbiased"])}
    own = [pair for pair in registered(OperatorPair) if pair.aten == base]
    for pair in (*own, *(_pairs_of().get(base) or _pairs_of().get(meaning_of(base), []))):
        values = _bound(pair, aten, arguments)
        if values is not None and _fits(pair, values):
            return pair, values
    return None


@cache
def _pairs_of() -> dict[str, list[OperatorPair]]:
    found: dict[str, list[OperatorPair]] = {}
    for pair in OPERATORS:
        found.setdefault(pair.aten, []).append(pair)
    return found


@dataclass(frozen=True)
class _Place:
    """An argument of ``says``: a variable, or a required constant."""

    name: str
    variable: str
    constant: Any = _NOTHING


@cache
def _places(says: str) -> tuple[_Place, ...]:
    said: Any = ast.parse(says, mode="eval").body
    return tuple(_read(said))


def _read(said: Any) -> Iterator[_Place]:
    call = isinstance(said, ast.Call)
    owner = said.func.value if call else said.value
    if isinstance(owner, ast.Name) and owner.id != "torch":  # a method
        yield _Place(owner.id, owner.id)
    if call:
        for argument in said.args:
            name: Any = argument.value if isinstance(argument, ast.Starred) else argument
            yield _Place(name.id, name.id)
        for keyword in said.keywords:
            if isinstance(keyword.value, ast.Constant):
                yield _Place(keyword.arg, "", keyword.value.value)
            else:
                yield _Place(keyword.arg, keyword.value.id)


def _bound(pair: OperatorPair, aten: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of the variables; None if the node has an argument that the pair does not cover."""
    names = {variable: name for name, variable in pair.schema.items() if variable and name in arguments}
    rest = {name: value for name, value in arguments.items() if pair.schema.get(name) != "" and name not in _PLACES}
    values: dict[str, Any] = {}
    for number, place in enumerate(_places(pair.says)):
        name = names.get(place.variable, place.name)
        if name not in rest and (number == 0 or name == "input"):
            name = "self"
        value = _in_jax(rest.pop(name, _NOTHING))
        if name in _NUMBERED and isinstance(value, int):
            value = _NUMBERED[name][value]
        if place.constant is not _NOTHING:
            if not (_same(value, place.constant) or (value is _NOTHING and place.name in pair.schema)):
                return None
            continue
        if value is None or value is _NOTHING:
            value = pair.left_out.get(place.variable, value)
        elif isinstance(value, tuple) and not value and pair.left_out.get(place.variable, value) is None:
            value = None  # ATen has empty lists for sizes or axes that are left out in torch
        if value is _NOTHING:
            return None
        values[place.variable] = value
    defaults = _defaults(aten)
    if any(
        value is not None and not _same(_in_jax(value), defaults.get(name, _NOTHING)) for name, value in rest.items()
    ):
        return None
    return values


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, tuple):
        return isinstance(other, tuple) and len(value) == len(other) and all(map(_same, value, other))
    # Comparing a symbolic size would add a guard.
    return isinstance(value, bool | int | float | complex | str) and value == other


def _in_jax(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return jnp.dtype(str(value).removeprefix("torch."))
    return tuple(map(_in_jax, value)) if isinstance(value, list | tuple) else value


@cache
def _defaults(aten: str) -> dict[str, Any]:
    library, name, overload = aten.split(".")
    schema = getattr(getattr(getattr(torch.ops, library), name), overload)._schema
    return {each.name: _in_jax(each.default_value) for each in schema.arguments if each.has_default_value()}


def _fits(pair: OperatorPair, values: Mapping[str, Any]) -> bool:
    first = next((value for value in values.values() if hasattr(value, "ndim")), None)
    axes = {"dim": values.get("dim"), **{name: values[name] for name in _named(pair.axes)}}
    if first is not None and first.ndim == 0 and any(axis is not None for axis in axes.values()):
        return False  # torch accepts axis 0 of a 0-d tensor, JAX does not
    if not pair.only_if:
        return True
    try:
        return bool(eval(_compiled(pair.only_if), {**_namespace(pair.imports), **values}))
    except Exception:
        # The condition needs more than a stand-in has, so it is unknown.
        return False


def _named(axes: Axes | None) -> tuple[str, ...]:
    """Return the variables that are axes."""
    if isinstance(axes, Along):
        return axes.variables
    return (axes.variable,) if isinstance(axes, Over) and axes.variable is not None else ()


@cache
def _compiled(source: str) -> Any:
    return compile(source, "only_if", "eval")


@cache
def _namespace(imports: tuple[str, ...]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join((GIVEN, *imports)), names)
    return names
