"""Results of a call: whether they are unpacked into names at once, and how to reach each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.graph import Value, each_value


def unpacks(results: Any, *, inside: bool = False) -> bool:
    """Whether a call's results get names at once (``x = …``, ``x, y = …``), or have no part that gets one."""
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
    """Yield the values in a call's results, each with the keys that lead to it."""
    match results:
        case Value():
            yield (), results
        case dict() | tuple():
            items = results.items() if isinstance(results, dict) else enumerate(results)
            for key, item in items:
                for keys, value in parts_of(item):
                    yield (key, *keys), value


def with_arrays(results: Any, values: Mapping[str, Value]) -> Any:
    """Drop the parts of a function's results that are numbers only: its caller already has them as numbers.

    Args:
        results: a tree of expressions.
        values: the values of the graph, by their names.
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
