"""Record calls of a module's own methods during an export, as calls of ``forward`` are."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, cast

import torch

from port.translation.frontend import custom_ops as markers
from port.translation.frontend.called_functions import is_noted, is_plain, is_special, original_classes
from port.translation.frontend.instrument import Noted, Notes, positional_names, with_slots
from port.translation.ir.module_calls import FORWARD, key_of


@contextmanager
def noted_methods(module: torch.nn.Module, notes: Notes) -> Iterator[None]:
    """Record calls such as ``self.attend(q, k, v)`` in a module's own code, within the context.

    Args:
        module: the root module.
        notes: the capture's notes.
    """
    known = {id(inner): path for path, inner in module.named_modules()}
    methods = list(_methods(module))
    on_instances = [
        (inner, name, own)
        for inner in module.modules()
        for name, own in vars(inner).items()
        if isinstance(own, MethodType) and own.__self__ is inner
        if any(name == other and isinstance(inner, cls) for cls, other, _ in methods)
    ]
    try:
        for cls, name, method in methods:
            setattr(cls, name, _noted(notes, known, name, method))
        for inner, name, own in on_instances:
            vars(inner)[name] = MethodType(_noted(notes, known, name, cast("FunctionType", own.__func__)), inner)
        yield
    finally:
        for inner, name, own in on_instances:
            vars(inner)[name] = own
        for cls, name, method in methods:
            setattr(cls, name, method)


def _methods(module: torch.nn.Module) -> Iterator[tuple[type, str, FunctionType]]:
    """Yield the methods of the original's own classes, each with the class that defines it."""
    for cls in original_classes(module):
        if not issubclass(cls, torch.nn.Module):
            continue
        for name, member in list(vars(cls).items()):
            is_method = isinstance(member, FunctionType) and name != FORWARD and not name.startswith("__")
            if is_method and not is_special(member) and "__wrapped__" not in vars(member):
                yield cls, name, member


def _noted(notes: Notes, known: dict[int, str], name: str, method: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(method)
    _, *names = positional_names(signature)

    @wraps(method)  # some code inspects a method's signature
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = known.get(id(self))
        is_own = path is not None and bool(notes.open) and notes.open[-1][1] is self
        key = key_of(path or "", name)
        # A subclass's override that calls this through ``super()`` is recorded itself.
        is_own = is_own and getattr(getattr(self, name, None), "__func__", None) is noted
        is_own = is_own and all(key != other for other, _ in notes.open)
        if not is_own or not is_noted(notes):
            return method(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return method(self, *args, **kwargs)
        bound.apply_defaults()
        passed = dict(list(bound.arguments.items())[1:])
        if not is_plain(passed, without_tensors=True):
            return method(self, *args, **kwargs)
        call = notes.next_call(key)
        mark = f"{notes.prefix}{key}#{call}"
        arguments, tensors, sizes = with_slots(passed)
        numbers = notes.origins.of_forward(sys._getframe(), names, method.__qualname__, arguments)
        notes.calls[f"{mark}>"] = Noted(path or "", call, self, keywords=arguments, numbers=numbers, method=name)
        begun = markers.mark(f"{mark}>", tensors, sizes)
        notes.marks.append(begun)
        returns_arrays = False
        try:
            with notes.within(key, self):
                results = method(self, *args, **kwargs)
            returns_arrays = is_plain(results)
        finally:
            if not returns_arrays:
                # A method with any other result is inlined at its call.
                notes.marks[:] = [each for each in notes.marks if each is not begun]
        if not returns_arrays:
            return results
        returned, tensors, sizes = with_slots(results)
        notes.calls[f"{mark}<"] = Noted(path or "", call, self, results=returned, method=name)
        notes.marks.append(markers.mark(f"{mark}<", tensors, sizes))
        return results

    return noted
