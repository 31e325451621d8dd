"""Constructor arguments whose numbers remember which argument they are."""

from __future__ import annotations

import argparse
import copy
import dataclasses
from typing import Any

import torch

from port.translation.ir.expr import NoSource, literal
from port.translation.ir.origin import ConstructorArgument
from port.translation.ir.origin_numbers import origin_of, plain, with_origin

_DEEPEST = 3
"""How deeply nested objects are followed."""
_LONGEST = 64
"""The longest tuple or list whose items get individual origins."""


class TrackedArguments:
    """Attaches origins to the arguments of constructors, and recognises configurations that pass through.

    A configuration is copied: the user's own object keeps its plain numbers.
    """

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Any, ConstructorArgument]] = {}

    def known(self, value: Any, constructor: int, argument: str, depth: int = 0) -> Any:
        """Return a value whose numbers have a `ConstructorArgument` as their origin.

        Args:
            value: the argument.
            constructor: the number of the constructor.
            argument: the expression with which the constructor reads it, e.g. ``config.dim``.
            depth: how deeply it is nested.
        """
        if isinstance(value, int | float):
            return with_origin(plain(value), ConstructorArgument(constructor, argument))
        if depth >= _DEEPEST or (isinstance(value, tuple | list | dict) and not _has_source(value)):
            return value
        if type(value) in (tuple, list) and len(value) <= _LONGEST:
            items = (self.known(item, constructor, f"{argument}[{k}]", depth + 1) for k, item in enumerate(value))
            return type(value)(items)
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {
                key: self.known(item, constructor, f"{argument}[{key!r}]", depth + 1) for key, item in value.items()
            }
        if is_configuration(value):
            return self._configuration(value, constructor, argument, depth)
        return value

    def _configuration(self, value: Any, constructor: int, argument: str, depth: int) -> Any:
        made = copy.copy(value)
        held = vars(made)  # circumvents a frozen dataclass's __setattr__
        for name, item in list(held.items()):
            held[name] = self.known(item, constructor, f"{argument}.{name}", depth + 1)
        self._objects[id(made)] = made, ConstructorArgument(constructor, argument)
        return made

    def origin_of_object(self, value: Any) -> ConstructorArgument | None:
        """Return the argument that a configuration is, or is a modified copy of; None where it is neither."""
        made, origin = self._objects.get(id(value), (None, None))
        return origin if made is value else _copied_from(value)


def _has_source(value: Any) -> bool:
    """Whether source can hold a container: one with an enum's member or an object in it, it cannot."""
    try:
        literal(value)
    except NoSource:
        return False
    return True


def _copied_from(value: Any) -> ConstructorArgument | None:
    """Return the argument from which all of a configuration's fields come; None where they come from several."""
    found = set()
    for name, item in vars(value).items() if is_configuration(value) else ():
        origin = origin_of(item) if isinstance(item, int | float) else None
        if isinstance(origin, ConstructorArgument) and origin.argument.endswith(f".{name}"):
            found.add(ConstructorArgument(origin.constructor, origin.argument.removesuffix(f".{name}")))
    return found.pop() if len(found) == 1 else None


def is_configuration(value: Any) -> bool:
    """Whether a value is an object that holds settings: a dataclass instance, a namespace, a ``PretrainedConfig``."""
    if isinstance(value, type | torch.nn.Module | torch.Tensor) or not hasattr(value, "__dict__"):
        return False
    if dataclasses.is_dataclass(value) or isinstance(value, argparse.Namespace):
        return True
    return any(base.__name__.endswith(("Config", "Configuration", "Args", "Namespace")) for base in type(value).__mro__)
