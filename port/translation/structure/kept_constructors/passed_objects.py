"""How objects passed to a constructor are constructed: ``BlockConfig(input_channels=96, num_layers=3)``."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from port.translation.frontend.construction.construction_calls import is_own
from port.translation.frontend.python_random import reseeded


def arguments_of_object(thing: Any) -> Mapping[str, Any] | None:
    """Find arguments that construct an equal object; None where there are none.

    Each argument is the attribute of its name, if there is one. The result is checked: an object constructed with the
    arguments has the same attributes.
    """
    cls = type(thing)
    if not is_own(cls) or not hasattr(thing, "__dict__"):
        return None
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return None
    held = vars(thing)
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY) for each in parameters):
        return None
    arguments = {each.name: held[each.name] for each in parameters if each.name in held}
    arguments = {
        each.name: arguments[each.name]
        for each in parameters
        if each.name in arguments and not is_same_object(arguments[each.name], each.default)
    }
    try:
        with reseeded(0):
            made = cls(**copy.deepcopy(arguments))
    except Exception:  # the constructor needs more than it stores, or rejects what it stored
        return None
    return arguments if is_same_object(vars(made), held) else None


def is_same_object(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: 1 is neither True nor 1.0."""
    if type(one) is not type(other):
        return False
    match one:
        case tuple() | list():
            return len(one) == len(other) and all(map(is_same_object, one, other))
        case dict():
            return one.keys() == other.keys() and all(is_same_object(one[key], other[key]) for key in one)
    try:
        return bool(one == other) or (hasattr(one, "__dict__") and is_same_object(vars(one), vars(other)))
    except (TypeError, ValueError, RuntimeError):
        return False
