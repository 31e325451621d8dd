"""Modules and objects that a constructor is given, each with the call that made it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.python_random import again

Call = Callable[..., Any]


class ConstructedValue:
    """A module, or another object, by what makes it anew.

    Args:
        made_by: a class, or a function.
        arguments: of that, by its parameters' names; some of them may be such values, too.
    """

    def __init__(self, made_by: Call, arguments: Mapping[str, Any]) -> None:
        self.made_by, self.arguments = made_by, dict(arguments)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.made_by.__name__}({given})"


def made_anew(value: Any, call: Call | None = None) -> Any:
    """What a constructor is given, with such values made.

    Args:
        value: that is given; it is left as it is.
        call: calls a function, or a class, with arguments by their names.
    """
    match value:
        case ConstructedValue():
            given = {name: made_anew(each, call) for name, each in value.arguments.items()}
            return value.made_by(**given) if call is None else call(value.made_by, **given)
        case tuple() | list() if type(value) in (tuple, list):
            return type(value)(made_anew(item, call) for item in value)
        case dict() if type(value) is dict:
            return {key: made_anew(item, call) for key, item in value.items()}
    return copy.deepcopy(value)


def with_constructed_values(given: Mapping[str, Any], construct: Call) -> Mapping[str, Any]:
    """What a model's constructor is given, with the calls in the place of the modules and the objects that they made.

    Args:
        given: by the parameters' names.
        construct: makes the model, and what it is given.
    """
    values = given.values()
    if not any(map(_is_made, values)) or any(map(is_configuration, values)):
        return given  # of a configuration the fields are written that are read
    watching = _Watching()
    with again(0), watching.calls():
        made = construct()
    of_root = watching.constructors.get(id(made))
    if of_root is None:
        return given
    known = of_root[1]
    return {name: watching.value(known[name]) if name in known else value for name, value in given.items()}


def _is_made(value: Any) -> bool:
    """Whether a value is, or holds, a module or an object of a class of the user's, or of a library's."""
    match value:
        case tuple() | list():
            return any(map(_is_made, value))
        case dict():
            return any(map(_is_made, value.values()))
    if isinstance(value, torch.Tensor | type | FunctionType):
        return False
    return (hasattr(value, "__dict__") and not callable(value)) or isinstance(value, torch.nn.Module)


class _Watching:
    """Notes the calls that make objects.

    Attributes:
        constructors: id of an object → its class, and the arguments that it was constructed with.
        functions: id of a module → the innermost function that gave it, and its arguments.
    """

    def __init__(self) -> None:
        self.constructors: dict[int, tuple[Call, Mapping[str, Any]]] = {}
        self.functions: dict[int, tuple[Call, Mapping[str, Any]]] = {}
        self._given: dict[int, Mapping[str, Any]] = {}
        self._held: list[Any] = []  # an id is an object's own only while it lives

    @contextmanager
    def calls(self) -> Any:
        """Within it, calls are noted."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "call":
            given: Mapping[str, Any] = _arguments(frame, code)
            self._given[id(frame)] = given
            if code.co_name == "__init__" and given:
                made = next(iter(given.values()))
                if id(made) not in self.constructors and not isinstance(made, type):
                    self._held.append(made)
                    self.constructors[id(made)] = type(made), dict(list(given.items())[1:])
        elif event == "return":
            given = self._given.pop(id(frame), {})
            if isinstance(result, torch.nn.Module) and id(result) not in self.functions:
                function = frame.f_globals.get(code.co_name)
                if isinstance(function, FunctionType) and function.__code__ is code:
                    self._held.append(result)
                    self.functions[id(result)] = function, given

    def value(self, thing: Any) -> Any:
        """A value with the calls that made it, as far as these are known."""
        match thing:
            case tuple() | list() if type(thing) in (tuple, list):
                return type(thing)(map(self.value, thing))
            case dict() if type(thing) is dict:
                return {key: self.value(item) for key, item in thing.items()}
        is_container = type(thing).__module__.startswith("torch.")
        known = (self.functions if is_container else self.constructors).get(id(thing))
        if known is None or not _is_made(thing):
            return thing
        made_by, arguments = known
        return ConstructedValue(made_by, {name: self.value(each) for name, each in arguments.items()})


def _arguments(frame: FrameType, code: CodeType) -> dict[str, Any]:
    """What a function is given, by its parameters' names; nothing of one that gathers some."""
    gathers = code.co_flags & 0x0C and any(frame.f_locals.get(name) for name in _gathering(code))
    if gathers:
        return {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: _copied(frame.f_locals[name]) for name in names if name in frame.f_locals}


def _gathering(code: CodeType) -> tuple[str, ...]:
    first = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[first : first + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)]


def _copied(value: Any) -> Any:
    """A list, or a dict, as it is now."""
    return copy.copy(value) if type(value) in (list, dict) else value
