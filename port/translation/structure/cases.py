"""The arguments of a module in each of several example calls, and what its call does there."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, literal, values_in, worth
from port.translation.ir.lowered import LoweredGraph
from port.translation.structure.call_tree import ModuleCall
from port.translation.structure.name_hints import own_name
from port.translation.structure.written_body import Body


@dataclass(frozen=True)
class ArrayArgument:
    """An argument that is an array, or a tree of arrays.

    Attributes:
        rank: the array's rank; None for a tree of several.
    """

    rank: int | None = None


Held: TypeAlias = "ArrayArgument | syntax.Expr"
"""The value of a parameter in a case: an array, or a literal."""


@dataclass(frozen=True)
class CaseBody:
    """What a module's call does in one case.

    Attributes:
        body: its statements.
        held: names of the original's parameters → their values, where known.
    """

    body: Body
    held: Mapping[str, Held]


def held_by(call: ModuleCall, lowered: LoweredGraph) -> dict[str, Held]:
    """The values of a call's parameters, except those that are neither arrays nor have a source form."""
    found: dict[str, Held] = {}
    for name, argument in call.parameters.items():
        try:
            said = literal(argument)
        except NoSource:
            continue
        if not values_in(said):
            found[name] = said
            continue
        value = lowered.values.get(said.name) if isinstance(said, syntax.Use) else None
        if value is None or value.shape is not None:
            found[name] = ArrayArgument(None if value is None else value.rank)
    return found


def in_all_calls(one: Mapping[str, Held], other: Mapping[str, Held]) -> dict[str, Held]:
    """The parameters' values that two calls have in common."""
    return {name: held for name, held in one.items() if other.get(name) == held}


def constants_of(held: Mapping[str, Held]) -> dict[str, Any]:
    """The parameters whose values are constants or trees of constants."""
    found: dict[str, Any] = {}
    for name, value in held.items():
        with suppress(ValueError):
            if isinstance(value, syntax.Expr):
                found[name] = worth(value)
    return found


def name_of(parameter: str) -> syntax.Name:
    """The name of a ``forward`` parameter in the written call."""
    return syntax.Name(own_name(parameter))


def default_of(function: Any, parameter: str) -> syntax.Expr | None:
    """The default of a function's parameter; None where it has none, or one without a source form."""
    found = inspect.signature(function).parameters.get(parameter)
    if found is None or found.default is found.empty:
        return None
    try:
        return literal(found.default)
    except NoSource:
        return None
