"""What a torch layer holds as a plain value, as its Flax twin holds it: ``embedding_dim`` is ``features``."""

from __future__ import annotations

import copy
from typing import Any

from port.errors import NoPair
from port.pairs.registry import resolve
from port.pairs.twin import build_twin, twin_pair


def twin_attribute(module: Any, attribute: str) -> str | None:
    """The attribute by which the twin of a layer holds what the layer holds; None where there is no such one.

    It is the one argument of the twin's that follows when the layer's value is another.

    Args:
        module: a torch layer.
        attribute: of it: ``out_channels``.
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
    names = [name for name, given in before.items() if _is(given, value) and _is(after.get(name), other)]
    if len(names) != 1:
        return None
    from flax import nnx

    held = getattr(nnx.eval_shape(lambda: build_twin(module)), names[0], None)
    return names[0] if _is(held, value) else None


def _is(one: Any, other: Any) -> bool:
    """Whether both are the same value of one type: True is not 1."""
    return type(one) is type(other) and bool(one == other)
