"""Modules and objects among a constructor's arguments, each represented by the call that made it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.python_random import reseeded

Call = Callable[..., Any]


class ConstructedValue:
    """A module or another object, as the call that makes it.

    Args:
        made_by: a class or a function.
        arguments: its arguments by name; they may be `ConstructedValue`s too.
    """

    def __init__(self, made_by: Call, arguments: Mapping[str, Any]) -> None:
        self.made_by, self.arguments = made_by, dict(arguments)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.made_by.__name__}({arguments})"


@dataclass(frozen=True)
class ConstructedPart:
    """A part of a module that a call makes: ``MobileNetV3(…).features``.

    Attributes:
        of: the call that makes the whole module.
        name: the attribute's name.
    """

    of: ConstructedValue
    name: str


def made_anew(value: Any, call: Call | None = None) -> Any:
    """Return a deep copy of an argument in which every `ConstructedValue` and `ConstructedPart` has been made.

    Args:
        value: the argument; left unchanged.
        call: makes a value from its class or function and keyword arguments; by default a plain call.
    """
    match value:
        case ConstructedValue():
            arguments = {name: made_anew(each, call) for name, each in value.arguments.items()}
            return value.made_by(**arguments) if call is None else call(value.made_by, **arguments)
        case ConstructedPart():
            return getattr(made_anew(value.of, call), value.name)
        case tuple() | list() if type(value) in (tuple, list):
            return type(value)(made_anew(item, call) for item in value)
        case dict() if type(value) is dict:
            return {key: made_anew(item, call) for key, item in value.items()}
    return copy.deepcopy(value)


def with_constructed_values(arguments: Mapping[str, Any], construct: Call) -> Mapping[str, Any]:
    """Replace modules and objects among a model's constructor arguments by the calls that make them.

    Args:
        arguments: the arguments by name.
        construct: makes the arguments and the model.
    """
    values = arguments.values()
    if not any(map(_is_made, values)) or any(map(is_configuration, values)):
        return arguments  # a configuration is written as the fields that are read
    watcher = _CallWatcher()
    with reseeded(0), watcher.calls():
        made = construct()
    of_root = watcher.constructors.get(id(made))
    if of_root is None:
        return arguments
    known = of_root[1]
    watcher.around.add(id(made))
    return {name: watcher.value(known[name]) if name in known else value for name, value in arguments.items()}


def _is_made(value: Any) -> bool:
    """Whether a value is, or contains, a module or an object of a user's or a library's class."""
    match value:
        case tuple() | list():
            return any(map(_is_made, value))
        case dict():
            return any(map(_is_made, value.values()))
    if isinstance(value, torch.Tensor | type | FunctionType):
        return False
    return (hasattr(value, "__dict__") and not callable(value)) or isinstance(value, torch.nn.Module)


class _CallWatcher:
    """Records the calls that make objects.

    Attributes:
        constructors: id of an object → its class and its constructor's arguments.
        functions: id of a module → the innermost function that returned it, and its arguments.
        around: ids of the objects whose arguments are being resolved.
    """

    def __init__(self) -> None:
        self.constructors: dict[int, tuple[Call, Mapping[str, Any]]] = {}
        self.functions: dict[int, tuple[Call, Mapping[str, Any]]] = {}
        self.around: set[int] = set()
        self._calls: dict[int, Mapping[str, Any]] = {}
        self._held: list[Any] = []  # an id is unique only while its object is alive

    @contextmanager
    def calls(self) -> Any:
        """Record calls within the context, with a profile function."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "call":
            arguments: Mapping[str, Any] = _arguments(frame, code)
            self._calls[id(frame)] = arguments
            if code.co_name == "__init__" and arguments:
                made = next(iter(arguments.values()))
                if id(made) not in self.constructors and getattr(type(made).__init__, "__code__", None) is code:
                    self._held.append(made)
                    self.constructors[id(made)] = type(made), dict(list(arguments.items())[1:])
        elif event == "return":
            arguments = self._calls.pop(id(frame), {})
            if isinstance(result, torch.nn.Module) and id(result) not in self.functions:
                function = frame.f_globals.get(code.co_name)
                if isinstance(function, FunctionType) and function.__code__ is code:
                    self._held.append(result)
                    self.functions[id(result)] = function, arguments

    def value(self, thing: Any) -> Any:
        """Replace a value, and the items of a container, by the calls that made them, where these are known."""
        match thing:
            case tuple() | list() if type(thing) in (tuple, list):
                return type(thing)(map(self.value, thing))
            case dict() if type(thing) is dict:
                return {key: self.value(item) for key, item in thing.items()}
        is_container = type(thing).__module__.startswith("torch.")
        known = (self.functions if is_container else self.constructors).get(id(thing))
        if known is None and isinstance(thing, torch.nn.Module):
            return self._part(thing)
        if known is None or not _is_made(thing):
            return thing
        made_by, arguments = known
        self.around.add(id(thing))
        made = ConstructedValue(made_by, {name: self.value(each) for name, each in arguments.items()})
        self.around.remove(id(thing))
        return made

    def _part(self, thing: torch.nn.Module) -> Any:
        """Represent a module that no call returned as an attribute of its owner; return it unchanged if it has none."""
        for owner in self._held:
            is_module = isinstance(owner, torch.nn.Module) and "_modules" in vars(owner)  # its __init__ has run
            if not is_module or id(owner) in self.around or id(owner) not in self.constructors:
                continue
            names = [name for name, child in owner._modules.items() if child is thing]
            if names and names[0].isidentifier() and isinstance(of := self.value(owner), ConstructedValue):
                return ConstructedPart(of, names[0])
        return thing


def _arguments(frame: FrameType, code: CodeType) -> dict[str, Any]:
    """Return a frame's arguments by name, ``**kwargs`` included; empty where ``*args`` holds any."""
    first = code.co_argcount + code.co_kwonlyargcount
    by_place, by_name = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
    if by_place and frame.f_locals.get(code.co_varnames[first]):
        return {}
    gathered = frame.f_locals.get(code.co_varnames[first + by_place], {}) if by_name else {}
    own = {name: frame.f_locals[name] for name in code.co_varnames[:first] if name in frame.f_locals}
    return {name: _copied(value) for name, value in {**own, **gathered}.items()}


def _copied(value: Any) -> Any:
    """Copy a list or a dict, which may change later."""
    return copy.copy(value) if type(value) in (list, dict) else value
