"""Names for values, from the original's statements."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from port.pairs.registry import imports_of_registered
from port.translation.ir import syntax
from port.translation.ir.graph import Value, each_value
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.source_map import Statement

if TYPE_CHECKING:
    from port.translation.structure.inline_dce import Made

RESERVED = frozenset(
    (*keyword.kwlist, "self", "jax", "jnp", "np", "nnx", "lax", "F", "partial", "math", "port", "unwritten", "Any", "_")
)


def is_reserved(name: str) -> bool:
    """Whether a name already has a meaning in the source."""
    return name in RESERVED or any(name == own.partition(".")[0] for own in imports_of_registered())


def own_name(parameter: str) -> str:
    """The name of a parameter of the original in the source."""
    return f"{parameter}_" if is_reserved(parameter) else parameter


def hints(made: list[Made], read: Collection[str] = ()) -> None:
    """Give each item the names of the original's statement that it completes.

    Args:
        made: the items; fills their ``names``: value → name.
        read: the values that are read after them.
    """
    main = [item for item in made if not item.keys]
    for number, item in enumerate(main):
        statement = item.statement
        if statement is None or statement.targets is None:
            continue
        ends = number + 1 == len(main) or _place(main[number + 1]) != statement.place
        if ends or (statement.in_loop and _begins_anew(main, number + 1)):
            if statement.is_of_parts:
                _name_each(_run_up_to(main, number), statement)
            else:
                _name_item(item, _parts_of(item, made), statement)
    for number, item in enumerate(main):
        name = _name_of_call(main, number, read)
        if name is not None:
            _name(item.results, name, item.names)


def _name_of_call(main: list[Made], number: int, read: Collection[str]) -> str | None:
    """The name for the result of an inlined function, if an item is that; None otherwise.

    The item is the last one of the call, and the only one that is read after it.
    """
    item, behind = main[number], main[number + 1 :]
    if any(statement.in_loop for statement in (item.statement, *item.outer) if statement is not None):
        return None  # lines do not show where an iteration ends
    for statement in reversed(item.outer):
        if not isinstance(statement.targets, str) or statement.taken or (behind and _is_of(behind[0], statement)):
            continue
        first = number
        while first > 0 and _is_of(main[first - 1], statement):
            first -= 1
        inside = {value.name for each in main[first:number] for value in each_value(each.results)}
        if not inside & {*read, *(name for each in behind for name in each.reads)}:
            return statement.targets
    return None


def _is_of(item: Made, statement: Statement) -> bool:
    """Whether an item belongs to a statement, or to a function called there."""
    return statement in (item.statement, *item.outer)


def _run_up_to(main: list[Made], number: int) -> list[Made]:
    """The items of one statement up to an item."""
    first = number
    while first > 0 and _place(main[first - 1]) == _place(main[number]):
        first -= 1
    return main[first : number + 1]


def _name_each(run: list[Made], statement: Statement) -> None:
    """Name the value of each part of ``q, k = self.q(x), self.k(x)``: values that the statement does not read."""
    read = {name for item in run for name in item.reads}
    ends = [item for item in run if isinstance(item.results, Value) and item.results.name not in read]
    names = statement.targets
    if len(ends) == len(names):
        for item, name in zip(ends, names, strict=True):
            _name(item.results, name, item.names)


def _parts_of(item: Made, made: list[Made]) -> list[Made]:
    """The items that take parts of an item's result, which follow it."""
    return list(takewhile(lambda each: each.keys, made[made.index(item) + 1 :]))


def _name_item(item: Made, parts: list[Made], statement: Statement) -> None:
    """Name an item's result, or the parts taken from it."""
    if not parts:
        _name(item.results, statement.targets, item.names)
        if isinstance(item.results, tuple) and isinstance(statement.targets, str) and len(item.results) > 1:
            named = [statement.parts.get((statement.targets, (place,))) for place in range(len(item.results))]
            _name(item.results, tuple(named), item.names)
        return
    if (isinstance(statement.targets, str) and not statement.taken) or isinstance(item.results, tuple):
        _name(item.results, statement.targets, item.names)
    for part in parts:
        match statement.targets:
            case str() as name if statement.taken:
                _name(part.results, name if part.keys == statement.taken else None, part.names)
            case str() as name:
                _name(part.results, statement.parts.get((name, part.keys)), part.names)
            case tuple() as names if len(part.keys) == 1 and part.keys[0] in range(len(names)):
                _name(part.results, names[part.keys[0]], part.names)
            case tuple() as names if isinstance(item.results, tuple):
                _name(part.results, statement.parts.get((names[part.keys[0]], part.keys[1:])), part.names)


def _begins_anew(made: list[Made], number: int) -> bool:
    """Whether an item starts the statement again, in the next iteration of a loop."""
    first, place = number, _place(made[number])
    while first > 0 and place is not None and _place(made[first - 1]) == place:
        first -= 1
    return _kind(made[number]) == _kind(made[first])


def _place(item: Made) -> SourceLocation | None:
    return None if item.statement is None else item.statement.place


def _kind(item: Made) -> syntax.Expr:
    """A key for the operation, without its weights and inputs; for a module, only that it is called."""
    match item.expression:
        case syntax.Call(syntax.Attr(path, attribute)):
            return syntax.Attr(_DIGITS.sub("", path), _DIGITS.sub("", attribute))

    def of(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Use():
                return syntax.Hole("value")
            case syntax.Attr(path, attribute):
                return syntax.Attr(_DIGITS.sub("", path), _DIGITS.sub("", attribute))
            case syntax.Const(int() | float() as number) if not isinstance(number, bool):
                return syntax.Const(type(number)(0))
            case syntax.Slice(lower, upper, step):
                # Bounds are numbers too, including omitted ones.
                return syntax.Slice(*(None if isinstance(end, syntax.Const) else end for end in (lower, upper, step)))
        return node

    return syntax.transformed(item.expression, of)


_DIGITS = re.compile(r"\d+")


def _name(results: Any, targets: Any, names: dict[str, str]) -> None:
    match results, targets:
        case Value(), str():
            if not is_reserved(targets):
                names[results.name] = targets
        case (Value() as only,), str():
            _name(only, targets, names)
        case tuple() | list(), tuple() if len(results) > 1 or len(targets) == 1:
            for part, target in zip(results, targets, strict=False):
                _name(part, target, names)
        case _:
            pass


_MOVES = ("expand_dims", "broadcast_to", "swapaxes", "moveaxis", "transpose", "squeeze", "astype")
"""Functions whose result is a rearrangement of their argument."""


def _parameter_moved(expression: syntax.Expr) -> syntax.Attr | None:
    """The parameter that an expression rearranges: ``jnp.expand_dims(self.latents[...], 0)``."""
    match expression:
        case syntax.Call(syntax.Attribute(attr=name), (inner, *_)) if name in _MOVES:
            return inner if isinstance(inner, syntax.Attr) else _parameter_moved(inner)
        case syntax.Subscript(syntax.Attr() as inner, syntax.Const(value)) if value is ...:
            return inner
    return None


_MADE_BY = {
    "reshape": "reshaped",
    "transpose": "transposed",
    "matrix_transpose": "transposed",
    "swapaxes": "swapped",
    "moveaxis": "moved",
    "expand_dims": "expanded",
    "broadcast_to": "broadcast",
    "squeeze": "squeezed",
    "concatenate": "joined",
    "stack": "stacked",
    "repeat": "repeated",
    "tile": "tiled",
    "pad": "padded",
    "flip": "flipped",
    "roll": "rolled",
    "take": "taken",
    "take_along_axis": "gathered",
    "where": "chosen",
    "astype": "cast",
}
"""Participles that name an operator's result: ``reshaped``."""


def plain_name(expression: syntax.Expr) -> str:
    """A name for a value without one: that of the called module, of a rearranged parameter, or of the operator."""
    moved = _parameter_moved(expression)
    match expression.func if isinstance(expression, syntax.Call) and moved is None else moved or expression:
        case syntax.Attr(_, str(name)) if name:
            found = name
        case syntax.Item(_, syntax.Const(str(key))):
            found = key
        case syntax.Item(tree):
            found = plain_name(tree)
        case syntax.Attr(path):
            found = path.rpartition(".")[2]
        case syntax.Attribute(attr=name):
            found = _MADE_BY.get(name, name)
        case _:
            found = "value"
    return found if found.isidentifier() and not is_reserved(found) else "value"
