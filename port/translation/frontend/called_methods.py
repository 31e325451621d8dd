"""For the time of an export, the methods that a module calls of itself note down their calls, as ``forward`` does."""

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
from port.translation.frontend.instrument import Noted, Notes, emptied, positional_names
from port.translation.ir.module_calls import FORWARD, key_of


@contextmanager
def noted_methods(module: torch.nn.Module, notes: Notes) -> Iterator[None]:
    """Within it, ``self.attend(q, k, v)`` is noted wherever a module's own code calls it.

    Args:
        module: the root.
        notes: of the capture.
    """
    known = {id(inner): path for path, inner in module.named_modules()}
    methods = list(_methods(module))
    anew = [
        (inner, name, own)
        for inner in module.modules()
        for name, own in vars(inner).items()
        if isinstance(own, MethodType) and own.__self__ is inner
        if any(name == other and isinstance(inner, cls) for cls, other, _ in methods)
    ]
    try:
        for cls, name, method in methods:
            setattr(cls, name, _noted(notes, known, name, method))
        for inner, name, own in anew:
            vars(inner)[name] = MethodType(_noted(notes, known, name, cast("FunctionType", own.__func__)), inner)
        yield
    finally:
        for inner, name, own in anew:
            vars(inner)[name] = own
        for cls, name, method in methods:
            setattr(cls, name, method)


def _methods(module: torch.nn.Module) -> Iterator[tuple[type, str, FunctionType]]:
    """The methods of the original's own classes, each with the class that has it."""
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

    @wraps(method)  # its signature is the method's: some code asks what it is given
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = known.get(id(self))
        is_own = path is not None and bool(notes.open) and notes.open[-1][1] is self
        key = key_of(path or "", name)
        # What a subclass has in this one's place calls it as ``super()``, and is noted itself.
        is_own = is_own and getattr(getattr(self, name, None), "__func__", None) is noted
        is_own = is_own and all(key != other for other, _ in notes.open)
        if not is_own or not is_noted(notes):
            return method(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return method(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        if not is_plain(given, without_tensors=True):
            return method(self, *args, **kwargs)
        call = notes.next_call(key)
        mark = f"{notes.prefix}{key}#{call}"
        arguments, tensors, sizes = emptied(given)
        numbers = notes.origins.of_forward(sys._getframe(), names, method.__qualname__, arguments)
        notes.calls[f"{mark}>"] = Noted(path or "", call, self, keywords=arguments, numbers=numbers, method=name)
        begun = markers.mark(f"{mark}>", tensors, sizes)
        notes.marks.append(begun)
        gives_arrays = False
        try:
            with notes.within(key, self):
                results = method(self, *args, **kwargs)
            gives_arrays = is_plain(results)
        finally:
            if not gives_arrays:
                # Of one that gives something else nothing is said: it is written out where it is called.
                notes.marks[:] = [each for each in notes.marks if each is not begun]
        if not gives_arrays:
            return results
        gives, tensors, sizes = emptied(results)
        notes.calls[f"{mark}<"] = Noted(path or "", call, self, results=gives, method=name)
        notes.marks.append(markers.mark(f"{mark}<", tensors, sizes))
        return results

    return noted
