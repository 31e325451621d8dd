"""Record how the script constructed its models, to construct them again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from port.errors import UsageError


class Constructions:
    """The constructor arguments of each module."""

    def __init__(self) -> None:
        self._arguments: Any = WeakIdKeyDictionary()

    def note(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record a module's constructor arguments."""
        self._arguments[module] = args, kwargs

    def constructor_of(self, module: nn.Module) -> Callable[..., nn.Module]:
        """A function that constructs a module as the script did, optionally with other arguments.

        It raises `UsageError` if the script did not construct the module by its class.
        """
        return lambda **other: self._constructed(module, other)

    def arguments_of(self, module: nn.Module) -> Mapping[str, Any]:
        """A module's constructor arguments by parameter name; empty if not known."""
        if module not in self._arguments:
            return {}
        args, kwargs = self._arguments[module]
        return inspect.signature(type(module)).bind(*args, **kwargs).arguments

    def _constructed(self, module: nn.Module, other: Mapping[str, Any]) -> nn.Module:
        if module not in self._arguments:
            raise UsageError(f"this {type(module).__name__} was not constructed by its class but loaded or copied")
        args, kwargs = self._again(self._arguments[module])
        if other:
            bound = inspect.signature(type(module)).bind(*args, **kwargs)
            bound.arguments.update(other)
            args, kwargs = bound.args, bound.kwargs
        made: nn.Module = type(module)(*args, **kwargs)
        return made

    def _again(self, value: Any) -> Any:
        """A constructor argument, with its modules constructed again."""
        if isinstance(value, nn.Module):
            return self._constructed(value, {})
        if isinstance(value, dict):
            return type(value)((key, self._again(item)) for key, item in value.items())
        if type(value) in (list, tuple):
            return type(value)(map(self._again, value))
        return value
