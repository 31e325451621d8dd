"""What a frame's variables hold: modules and their paths, and the attributes of objects."""

from __future__ import annotations

import builtins
import inspect
from types import FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch


class Missing:
    """What a value is that is not known."""


MISSING = Missing()


class ModulePaths:
    """The paths of the modules within one.

    Args:
        root: the module; where one stands at several paths, the first counts.
    """

    def __init__(self, root: torch.nn.Module) -> None:
        self._root = root  # an id is a thing's own only while it lives
        self._paths = {id(module): path for path, module in root.named_modules()}

    def of(self, value: Any) -> str | None:
        """The path of a module; None for whatever is none of the root's."""
        return self._paths.get(id(value)) if isinstance(value, torch.nn.Module) else None


def variable(frame: FrameType, name: str) -> Any:
    """What a name means in a frame: a variable of the function's, of the file's, or a builtin; `MISSING` if nothing."""
    for variables in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in variables:
            return variables[name]
    return MISSING


def attribute(value: Any, name: str) -> Any:
    """An attribute that lies in an object; `MISSING` where a property, or another descriptor, would work it out.

    Of an object that is no module its own ``__getattr__`` is asked, as the source asks it: a configuration may look a
    name up under another.
    What reads ``training`` off a module is noted while a module is captured; this is not.
    """
    if isinstance(value, ModuleType):
        return vars(value).get(name, MISSING)
    if isinstance(value, torch.Tensor | Missing):
        return MISSING
    static = inspect.getattr_static(type(value), name, MISSING)
    if isinstance(value, torch.nn.Module):
        return _of_module(value, name, static)
    if isinstance(static, FunctionType):
        return MISSING if isinstance(value, type) else MethodType(static, value)
    if hasattr(type(static), "__get__") and not _only_reads(static):
        return MISSING
    try:
        return getattr(value, name)
    except Exception:  # whatever it raises
        return MISSING


def _of_module(module: torch.nn.Module, name: str, static: Any) -> Any:
    held = vars(module)
    if hasattr(type(static), "__set__") and not (name == "training" and name in held):
        return MISSING  # a property goes before what the module holds
    for several in (held, held["_modules"], held["_parameters"], held["_buffers"]):
        if name in several:
            return several[name]
    if isinstance(static, FunctionType):
        return MethodType(static, module)
    return MISSING if hasattr(type(static), "__get__") else static


def _only_reads(static: Any) -> bool:
    """Whether a descriptor gives what lies in the object: a slot, or a field of a named tuple."""
    return isinstance(static, MemberDescriptorType) or type(static).__name__ == "_tuplegetter"


def code_of(function: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The function that runs when something is called, and what it is given before the call's own arguments."""
    if isinstance(function, FunctionType):
        return function, ()
    if isinstance(function, MethodType):
        inner = function.__func__
        return (inner, (function.__self__,)) if isinstance(inner, FunctionType) else None
    if isinstance(function, type | ModuleType | Missing):
        return None
    call = inspect.getattr_static(type(function), "__call__", None)
    return (call, (function,)) if isinstance(call, FunctionType) else None
