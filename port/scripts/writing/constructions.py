"""How the script constructed its models, so that they can be constructed once more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from port.errors import UsageError


class Constructions:
    """What each module was constructed with."""

    def __init__(self) -> None:
        self._given: Any = WeakIdKeyDictionary()

    def note(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keep what a module is being constructed with."""
        self._given[module] = args, kwargs

    def constructor_of(self, module: nn.Module) -> Callable[..., nn.Module]:
        """What constructs a module as the script did, or with other arguments in the place of those that it is given.

        It raises `UsageError` where the script did otherwise.
        """
        return lambda **other: self._constructed(module, other)

    def arguments_of(self, module: nn.Module) -> Mapping[str, Any]:
        """What a module was constructed with, by the names of its parameters; nothing where that is not known."""
        if module not in self._given:
            return {}
        args, kwargs = self._given[module]
        return inspect.signature(type(module)).bind(*args, **kwargs).arguments

    def _constructed(self, module: nn.Module, other: Mapping[str, Any]) -> nn.Module:
        if module not in self._given:
            raise UsageError(f"this {type(module).__name__} was not constructed by its class: it was loaded, or copied")
        args, kwargs = self._again(self._given[module])
        if other:
            bound = inspect.signature(type(module)).bind(*args, **kwargs)
            bound.arguments.update(other)
            args, kwargs = bound.args, bound.kwargs
        made: nn.Module = type(module)(*args, **kwargs)
        return made

    def _again(self, value: Any) -> Any:
        """What a constructor is given, with modules of its own."""
        if isinstance(value, nn.Module):
            return self._constructed(value, {})
        if isinstance(value, dict):
            return type(value)((key, self._again(item)) for key, item in value.items())
        if type(value) in (list, tuple):
            return type(value)(map(self._again, value))
        return value
