"""Name and replace the arrays in a model's arguments and results: tensors, tuples, dicts, dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

Change = Callable[[str, Any], Any]


def leaves(value: Any) -> dict[str, Any]:
    """Return all arrays or tensors of a structure by name: ``""`` for a lone one, ``"1.0"``; no numbers."""
    found: dict[str, Any] = {}

    def note(name: str, leaf: Any) -> Any:
        found[name] = leaf
        return leaf

    rebuilt(value, note)
    return found


def rebuilt(value: Any, change: Change, at: str = "") -> Any:
    """Return the same structure with each array or tensor replaced.

    Args:
        value: an array or tensor; or tuples, lists, mappings and dataclasses of them. Other objects are unchanged.
        change: a function of each array's name and value.
        at: the prefix of the names.
    """
    if is_array(value):
        return change(at, value)
    if isinstance(value, Mapping):
        items = {key: rebuilt(item, change, _beneath(at, key)) for key, item in value.items()}
        return items if type(value) is dict else _like(value, items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = zip(value._fields, value, strict=True)
        return type(value)(*(rebuilt(item, change, _beneath(at, name)) for name, item in named))
    if isinstance(value, tuple | list):
        return type(value)(rebuilt(item, change, _beneath(at, place)) for place, item in enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(
            value, **{name: rebuilt(getattr(value, name), change, _beneath(at, name)) for name in names}
        )
    return value


def is_array(value: Any) -> bool:
    """Whether an object is an array of numbers, of numpy, jax or torch; a jax random key is not one."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not str(value.dtype).startswith("key<")


def _beneath(at: str, name: Any) -> str:
    return f"{at}.{name}" if at else str(name)


def _like(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a mapping of the same type if it can be made from its items; else a dict."""
    try:
        if dataclasses.is_dataclass(value):  # transformers' outputs are both
            return dataclasses.replace(value, **items)
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:
        return items
