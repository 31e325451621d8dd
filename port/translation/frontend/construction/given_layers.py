"""Classes of layers of one's own that a constructor is given: ``conv_makers=[Conv3DSimple, Conv3DNoTemporal]``.

And those of the modules that are made for it, of which the model may hold parts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.constructed_values import ConstructedPart, ConstructedValue
from port.translation.frontend.construction.construction_calls import is_own


def layers_given(given: Mapping[str, Any], layers: frozenset[type]) -> frozenset[type]:
    """The classes that derive from torch's layers and have a constructor of their own, with those in between.

    Which of them is constructed, who reads the call does not see: they are written as classes of their own.

    Args:
        given: to the root's constructor.
        layers: classes of layers that are kept whole.
    """
    return frozenset(
        base
        for cls in _within(given)
        if isinstance(cls, type) and cls in layers and isinstance(cls.__init__, FunctionType)  # type: ignore[misc]
        for base in cls.__mro__
        if is_own(base) and issubclass(base, torch.nn.Module) and "__init__" in vars(base)
    )


def modules_made(given: Mapping[str, Any]) -> frozenset[type]:
    """The classes of one's own of which modules are made for a constructor, or for what makes its arguments."""
    makers = (value.made_by for value in _within(given) if isinstance(value, ConstructedValue))
    return frozenset(
        cls for cls in makers if isinstance(cls, type) and is_own(cls) and issubclass(cls, torch.nn.Module)
    )


def _within(value: Any) -> Iterator[Any]:
    """What is given, and what that is made of."""
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
