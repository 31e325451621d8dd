"""What constructors are given, with numbers that remember which argument they are."""

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
"""Objects within objects that are looked into."""
_LONGEST = 64
"""Items of a tuple that are told apart."""


class GivenArguments:
    """Makes the arguments of constructors known, and knows the configurations among them again.

    A configuration is copied: the user's own keeps its plain numbers.
    """

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Any, ConstructorArgument]] = {}

    def known(self, value: Any, constructor: int, argument: str, depth: int = 0) -> Any:
        """A value whose numbers remember that they are an argument's, or a part of it.

        Args:
            value: that is given.
            constructor: the number of the constructor.
            argument: how the constructor reads it.
            depth: within how many others it stands.
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
        held = vars(made)  # past what a frozen class would say to an assignment
        for name, item in list(held.items()):
            held[name] = self.known(item, constructor, f"{argument}.{name}", depth + 1)
        self._objects[id(made)] = made, ConstructorArgument(constructor, argument)
        return made

    def origin_of_object(self, value: Any) -> ConstructorArgument | None:
        """Which argument a configuration is, or a copy of which: one that a constructor has made, to change a field."""
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
    """The argument whose fields a configuration has; None where it has those of several."""
    found = set()
    for name, item in vars(value).items() if is_configuration(value) else ():
        origin = origin_of(item) if isinstance(item, int | float) else None
        if isinstance(origin, ConstructorArgument) and origin.argument.endswith(f".{name}"):
            found.add(ConstructorArgument(origin.constructor, origin.argument.removesuffix(f".{name}")))
    return found.pop() if len(found) == 1 else None


def is_configuration(value: Any) -> bool:
    """Whether a value is an object that holds settings: a dataclass's, a namespace, a ``PretrainedConfig``."""
    if isinstance(value, type | torch.nn.Module | torch.Tensor) or not hasattr(value, "__dict__"):
        return False
    if dataclasses.is_dataclass(value) or isinstance(value, argparse.Namespace):
        return True
    return any(base.__name__.endswith(("Config", "Configuration", "Args", "Namespace")) for base in type(value).__mro__)
