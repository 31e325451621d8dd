"""Read a frame's variables and the attributes of objects, without running the user's code."""

from __future__ import annotations

import builtins
import inspect
from types import FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch


class Missing:
    """The type of `MISSING`."""


MISSING = Missing()
"""Stands for a value that is not known."""


class ModulePaths:
    """The paths of the modules within a root module.

    Args:
        root: the root; a module with several paths gets the first.
    """

    def __init__(self, root: torch.nn.Module) -> None:
        self._root = root  # an id is unique only while its object is alive
        self._paths = {id(module): path for path, module in root.named_modules()}

    def of(self, value: Any) -> str | None:
        """Return a module's path; None for anything that is not a module of the root."""
        return self._paths.get(id(value)) if isinstance(value, torch.nn.Module) else None


def variable(frame: FrameType, name: str) -> Any:
    """Look up a name in a frame: a local, a global or a builtin; `MISSING` if there is none."""
    for variables in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in variables:
            return variables[name]
    return MISSING


def attribute(value: Any, name: str) -> Any:
    """Look up an attribute that an object stores; `MISSING` where a property or another descriptor would compute it.

    The ``__getattr__`` of an object that is not a module is called, since a configuration may map one name to another.
    Reading ``training`` of a module here is not recorded as a read by the captured code.
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
        return MISSING  # a property takes precedence over what the module holds
    for several in (held, held["_modules"], held["_parameters"], held["_buffers"]):
        if name in several:
            return several[name]
    if isinstance(static, FunctionType):
        return MethodType(static, module)
    return MISSING if hasattr(type(static), "__get__") else static


def _only_reads(static: Any) -> bool:
    """Whether a descriptor only reads a stored value: a slot, or a field of a named tuple."""
    return isinstance(static, MemberDescriptorType) or type(static).__name__ == "_tuplegetter"


def code_of(function: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """Return the Python function behind a callable, and the arguments bound to it; None where there is none."""
    if isinstance(function, FunctionType):
        return function, ()
    if isinstance(function, MethodType):
        inner = function.__func__
        return (inner, (function.__self__,)) if isinstance(inner, FunctionType) else None
    if isinstance(function, type | ModuleType | Missing):
        return None
    call = inspect.getattr_static(type(function), "__call__", None)
    return (call, (function,)) if isinstance(call, FunctionType) else None
