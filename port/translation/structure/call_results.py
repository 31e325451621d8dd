"""What a call gives: whether its parts have names at once, and how each is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.graph import Value, each_value


def unpacks(results: Any, *, inside: bool = False) -> bool:
    """Whether what a call gives has names of its own at once: ``x = …``, ``x, y = …``; or has no part that has one."""
    values = [value.name for value in each_value(results)]
    match results:
        case None | Value():
            return True
        case tuple():
            plain = len(results) > 1 and all(unpacks(part, inside=True) for part in results)
            return (plain and len(values) == len(set(values))) or (not values and not inside)
        case _:
            return not values and not inside


def parts_of(results: Any) -> Iterator[tuple[tuple[Any, ...], Value]]:
    """The values in what a call gives, by the keys that lead to them."""
    match results:
        case Value():
            yield (), results
        case dict() | tuple():
            items = results.items() if isinstance(results, dict) else enumerate(results)
            for key, item in items:
                for keys, value in parts_of(item):
                    yield (key, *keys), value


def with_arrays(results: Any, values: Mapping[str, Value]) -> Any:
    """What a function gives, without the parts that are numbers alone: whoever calls it has those as numbers.

    Args:
        results: a tree of expressions.
        values: of the run, by their names.
    """
    if not isinstance(results, tuple):
        return results
    kept = tuple(part for part in results if part is None or not _is_of_numbers(part, values))
    return kept[0] if len(kept) == 1 and len(results) > 1 else kept


def _is_of_numbers(part: Any, values: Mapping[str, Value]) -> bool:
    match part:
        case syntax.Use(name):
            return name in values and values[name].shape is None
        case tuple() | list() as items:
            return all(_is_of_numbers(item, values) for item in items)
        case dict():
            return _is_of_numbers(list(part.values()), values)
    return isinstance(part, int | float)
