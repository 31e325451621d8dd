"""The names that the original's statements give to what is made."""

from __future__ import annotations

import keyword
from typing import Any

from port.translation.ir.graph import Value

RESERVED = frozenset(
    (*keyword.kwlist, "self", "jax", "jnp", "np", "nnx", "lax", "F", "partial", "math", "port", "unwritten", "Any", "_")
)


def hints(made: list[Any]) -> None:
    """Give each item of a run the names of the statement that it ends.

    Args:
        made: items with ``results``, ``statement`` and ``names``, which is filled: value → name.
    """
    for number, item in enumerate(made):
        statement = item.statement
        if statement is None or statement.targets is None:
            continue
        following = made[number + 1] if number + 1 < len(made) else None
        ends = following is None or following.statement is None or following.statement.place != statement.place
        if ends or (statement.in_loop and _begins_anew(made, number + 1)):
            _name(item.results, statement.targets, item.names)


def _begins_anew(made: list[Any], number: int) -> bool:
    """Whether the statement is carried out again, in the next round of a loop, from this item on."""
    first = number
    place = made[number].statement.place
    while first > 0 and made[first - 1].statement is not None and made[first - 1].statement.place == place:
        first -= 1
    return _kind(made[number]) == _kind(made[first])


def _kind(item: Any) -> str:
    import ast
    import re

    return re.sub(r"%\w+|\d+", "", ast.unparse(ast.fix_missing_locations(item.expression)))


def _name(results: Any, targets: Any, names: dict[str, str]) -> None:
    match results, targets:
        case Value(), str():
            if targets not in RESERVED:
                names[results.name] = targets
        case (Value() as only,), str():
            _name(only, targets, names)
        case tuple() | list(), tuple():
            for part, target in zip(results, targets, strict=False):
                _name(part, target, names)
        case _:
            pass
