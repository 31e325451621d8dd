"""Classes among a constructor's arguments: ``conv_makers=[Conv3DSimple, Conv3DNoTemporal]``.

Includes the classes of modules that are made as arguments, of which the model may hold only parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.constructed_values import ConstructedPart, ConstructedValue
from port.translation.frontend.construction.construction_calls import is_own


def layer_classes_in(arguments: Mapping[str, Any], layers: frozenset[type]) -> frozenset[type]:
    """Return the user's layer classes among the arguments that define a constructor, with their user-defined bases.

    A call in the source does not show which of them it constructs, so each is written as a class.

    Args:
        arguments: the arguments of the root's constructor by name.
        layers: classes of the layers that are kept whole.
    """
    return frozenset(
        base
        for cls in _within(arguments)
        if isinstance(cls, type) and cls in layers and isinstance(cls.__init__, FunctionType)  # type: ignore[misc]
        for base in cls.__mro__
        if is_own(base) and issubclass(base, torch.nn.Module) and "__init__" in vars(base)
    )


def module_classes_made(arguments: Mapping[str, Any]) -> frozenset[type]:
    """Return the user's classes of modules that are made as arguments, directly or inside other arguments."""
    makers = (value.made_by for value in _within(arguments) if isinstance(value, ConstructedValue))
    return frozenset(
        cls for cls in makers if isinstance(cls, type) and is_own(cls) and issubclass(cls, torch.nn.Module)
    )


def _within(value: Any) -> Iterator[Any]:
    """Yield a value and everything that it is made of."""
    match value:
        case tuple() | list():
            for item in value:
                yield from _within(item)
        case Mapping():
            yield from _within(tuple(value.values()))
        case partial():
            yield from _within((value.func, *value.args, value.keywords))
        case ConstructedPart(of=of):
            yield from _within(of)
        case ConstructedValue():
            yield value
            yield from _within(value.arguments)
        case _:
            yield value
