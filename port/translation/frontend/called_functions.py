"""Record calls of the original's own functions during an export, so that the source can define them too."""

from __future__ import annotations

import inspect
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from port.translation.frontend import custom_ops as markers
from port.translation.frontend.instrument import NotedFunction, Notes, positional_names, with_slots

_KEY = "()"
"""Used in place of a module path for functions; no module path looks like it."""
NEVER = ("torch", "torchvision.ops", "port")
_PLAIN = (torch.Tensor, torch.SymInt, int, float, str, torch.dtype, torch.device, type(None))
"""Types of arguments and results that a function in the written source may have."""


@contextmanager
def noted_functions(module: torch.nn.Module, notes: Notes) -> Iterator[None]:
    """Record calls of functions that the module's own code refers to by name, within the context.

    Args:
        module: the root module.
        notes: the capture's notes.
    """
    homes = _homes(module)
    try:
        for function, places in homes.items():
            noted = _noted(notes, function)
            for place in places:
                _put(place, noted)
        yield
    finally:
        for function, places in homes.items():
            for place in places:
                _put(place, function)


def _noted(notes: Notes, function: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(function)
    names = positional_names(signature)

    @wraps(function)  # some code inspects a function's signature
    def noted(*args: Any, **kwargs: Any) -> Any:
        if not is_noted(notes):
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        bound.apply_defaults()
        if not is_plain(dict(bound.arguments)):
            return function(*args, **kwargs)
        call = notes.next_call(_KEY)
        key = f"{notes.prefix}{_KEY}#{call}"
        arguments, tensors, sizes = with_slots(dict(bound.arguments))
        numbers = notes.origins.of_forward(sys._getframe(), names, function.__qualname__, arguments)
        made = NotedFunction(function, call, arguments, tuple(names[: len(args)]), tuple(kwargs), numbers=numbers)
        notes.functions[f"{key}>"] = notes.functions[f"{key}<"] = made
        begun = markers.mark(f"{key}>", tensors, sizes)
        notes.marks.append(begun)
        try:
            with notes.within(_KEY, None):
                results = function(*args, **kwargs)
        except BaseException:
            notes.marks[:] = [mark for mark in notes.marks if mark is not begun]
            raise
        # A function with any other result is inlined at its call.
        made.results, tensors, sizes = with_slots(results if is_plain(results) else None)
        notes.marks.append(markers.mark(f"{key}<", tensors, sizes))
        return results

    noted.__wrapped__ = function  # type: ignore[attr-defined]  # so that its source can be inspected
    return noted


def is_plain(tree: Any, *, without_tensors: bool = False) -> bool:
    """Whether a tree holds tensors and otherwise only plain values.

    Args:
        tree: a call's arguments or results.
        without_tensors: whether to accept a tree without any tensor.
    """
    leaves = pytree.tree_leaves(tree, is_leaf=lambda leaf: leaf is None)
    is_any = without_tensors or any(isinstance(leaf, torch.Tensor) for leaf in leaves)
    return is_any and all(isinstance(leaf, _PLAIN) for leaf in leaves)


def is_noted(notes: Notes) -> bool:
    """Whether to record a call made now: it belongs to the captured program, and not to the inside of a kept layer.

    The trial of a custom gradient runs on real numbers, under no dispatch mode. Marks have no batching and no gradient
    rule, so nothing is recorded under torch.vmap, nor under a gradient taken inside the model.
    """
    is_mapped = torch._C._functorch.peek_interpreter_stack() is not None
    return not notes.in_layer and bool(_get_current_dispatch_mode_stack()) and not is_mapped


# %% Which functions


def _homes(module: torch.nn.Module) -> dict[FunctionType, list[Any]]:
    """Return the original's own functions, each with the namespaces in which its callers look it up."""
    classes = original_classes(module)
    packages = frozenset(cls.__module__.partition(".")[0] for cls in classes)
    waiting = [member for cls in classes for each in vars(cls).values() if (member := _plain_function(each))]
    seen: set[int] = set()
    found: dict[FunctionType, list[Any]] = {}
    while waiting:
        caller = waiting.pop()
        if id(caller) in seen:
            continue
        seen.add(id(caller))
        for place, function in _called_by(caller):
            if _is_own(function, packages):
                places = found.setdefault(function, [])
                if not any(_is_same(place, other) for other in places):
                    places.append(place)
                waiting.append(function)
    return found


def _called_by(caller: FunctionType) -> Iterator[tuple[Any, FunctionType]]:
    """Yield the functions that a function's code refers to, with the namespace of each name."""
    names = set(_names_in(caller.__code__))
    variables = caller.__globals__
    for name in names & variables.keys():
        known = variables[name]
        if isinstance(known, FunctionType):
            yield (variables, name), known
        elif isinstance(known, ModuleType) and not is_of(known.__name__, NEVER):
            for inner in names & vars(known).keys():
                if isinstance(vars(known)[inner], FunctionType):
                    yield (vars(known), inner), vars(known)[inner]
    for cell in caller.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # the cell is still empty
            continue
        if isinstance(held, FunctionType):
            yield cell, held


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _plain_function(member: Any) -> FunctionType | None:
    """Return the plain function behind a class member: a method, static method or property."""
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return member if isinstance(member, FunctionType) else None


def original_classes(module: torch.nn.Module) -> list[type]:
    """Return the user-defined classes of a module and its submodules, base classes included."""
    classes = (cls for inner in module.modules() for cls in type(inner).__mro__ if not is_of(cls.__module__, NEVER))
    return list(dict.fromkeys(classes))


def is_special(function: FunctionType) -> bool:
    """Whether calling a function does not run its body: a generator or a coroutine."""
    special = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return bool(function.__code__.co_flags & special)


def _is_own(function: FunctionType, packages: frozenset[str]) -> bool:
    """Whether a function is a plain, undecorated function of the original's code.

    Args:
        function: a function that the original calls.
        packages: the packages that define the classes of the original's modules.
    """
    home = function.__module__ or ""
    is_theirs = home.partition(".")[0] in packages or not _is_installed(function.__code__.co_filename)
    is_decorated = any(name == "__wrapped__" or "dynamo" in name for name in vars(function))
    return (
        is_theirs
        and not is_of(home, NEVER)
        and function.__name__.isidentifier()
        and not is_special(function)
        and function.__closure__ is None
        and not is_decorated
    )


@cache
def _is_installed(file: str) -> bool:
    """Whether a file belongs to the standard library or to an installed package."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib")]
    return file.startswith("<") or any(Path(file).is_relative_to(folder) for folder in folders)


def is_of(module: str, packages: tuple[str, ...]) -> bool:
    """Whether a module, by its dotted name, belongs to one of some packages."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two places are the same."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one[0] is other[0] and one[1] == other[1]
    return one is other


def _put(place: Any, function: Callable[..., Any]) -> None:
    if isinstance(place, CellType):
        place.cell_contents = function
    else:
        variables, name = place
        variables[name] = function
