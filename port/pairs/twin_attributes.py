"""Attributes of torch layers under the twin's names: ``embedding_dim`` is ``features``."""

from __future__ import annotations

import copy
from typing import Any

from port.errors import NoPair
from port.pairs.registry import resolve
from port.pairs.twin import build_twin, twin_pair


def twin_attribute(module: Any, attribute: str) -> str | None:
    """Return the twin's name of a layer's attribute; None if there is none.

    It is the one constructor argument of the twin that changes with the layer's value.

    Args:
        module: a torch layer.
        attribute: its name, such as ``out_channels``.
    """
    value = vars(module).get(attribute)
    if not isinstance(value, bool | int | float):
        return None
    moved = copy.copy(module)
    vars(moved)[attribute] = other = not value if isinstance(value, bool) else value + 1
    try:
        pair = twin_pair(module)
        if not isinstance(resolve(pair.flax), type):
            return None
        before, after = pair.arguments(module), pair.arguments(moved)
    except (NoPair, ArithmeticError, ValueError, TypeError, LookupError):
        return None
    names = [name for name, argument in before.items() if _is(argument, value) and _is(after.get(name), other)]
    if len(names) != 1:
        return None
    from flax import nnx

    held = getattr(nnx.eval_shape(lambda: build_twin(module)), names[0], None)
    return names[0] if _is(held, value) else None


def _is(one: Any, other: Any) -> bool:
    """Whether both have the same type and value: True is not 1."""
    return type(one) is type(other) and bool(one == other)
