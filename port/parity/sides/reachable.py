"""Find everything a torch module reaches, also in lists, closures and partials that ``named_modules`` misses."""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

_LEAVES = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType, types.BuiltinFunctionType)
_REGISTERED = ("_parameters", "_buffers", "_modules")


def reached(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield each object once, by a shortest path: ``(".blocks[0].weight", tensor)``. The root comes first: ``("", …)``.

    Classes and Python modules are not searched, except for class attributes of modules, and for tensors and modules
    among the globals that their functions name.
    """
    seen = {id(root)}
    alive = []  # an id is unique only while its object lives
    waiting = deque([("", root)])
    while waiting:
        path, thing = waiting.popleft()
        yield path, thing
        for step, inner in _inside(thing):
            if id(inner) not in seen and not isinstance(inner, _LEAVES):
                seen.add(id(inner))
                alive.append(inner)
                waiting.append((f"{path}{step}", inner))


def registered(module: Any) -> set[int]:
    """Return the ``id`` of every parameter, buffer and module registered in a module."""
    found: set[int] = set()
    waiting = [module]
    while waiting:
        inner = waiting.pop()
        if inner is not None and id(inner) not in found:
            found.add(id(inner))
            found.update(id(tensor) for kind in _REGISTERED[:2] for tensor in vars(inner)[kind].values())
            waiting += vars(inner)["_modules"].values()
    return found


def _inside(thing: Any) -> Iterator[tuple[str, Any]]:
    match thing:
        case torch.Tensor():
            return
        case torch.nn.Module():
            yield from _of_module(thing)
        case list() | tuple() | deque() | set() | frozenset():
            for number, item in enumerate(list(thing)):
                yield f"[{number}]", item
        case dict():
            for key, item in list(thing.items()):
                yield f"[{key!r}]" if isinstance(key, str | int) else "[…]", item
                yield ".keys()[…]", key
        case types.FunctionType():
            yield from _of_function(thing)
        case types.MethodType():
            yield ".__self__", thing.__self__
            yield "", thing.__func__
        case functools.partial():
            yield "", thing.func
            for number, item in enumerate(thing.args):
                yield f".args[{number}]", item
            for name, item in thing.keywords.items():
                yield f".keywords[{name!r}]", item
        case weakref.ref():
            yield "()", thing()
    yield from _of_object(thing)


def _of_module(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for kind in _REGISTERED:
        for name, item in vars(module)[kind].items():
            yield f".{name}" if not name.isdigit() else f"[{name}]", item
    for cls in type(module).__mro__:
        if cls is torch.nn.Module:
            break
        for name, item in vars(cls).items():
            if isinstance(item, torch.Tensor | torch.nn.Module | list | tuple | dict):
                yield f".{name}", item
            elif isinstance(item, types.FunctionType):
                yield from _globals(item)


def _of_object(thing: Any) -> Iterator[tuple[str, Any]]:
    attributes = getattr(thing, "__dict__", None)
    for name, item in list(attributes.items()) if isinstance(attributes, dict) else ():
        if name.endswith("_hooks") and isinstance(thing, torch.nn.Module):
            for hook in item.values() if isinstance(item, dict) else ():
                yield f".{name.strip('_').removesuffix('s')}", hook
        elif name not in _REGISTERED:
            yield f".{name}", item
    for cls in type(thing).__mro__:
        for name in (slots,) if isinstance(slots := vars(cls).get("__slots__", ()), str) else slots:
            if hasattr(thing, name):
                yield f".{name}", getattr(thing, name)


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" → {name}", cell.cell_contents
        except ValueError:
            continue
    for item in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield " → a default", item
    yield from _globals(function)


def _globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name in function.__code__.co_names:
        item = function.__globals__.get(name)
        if isinstance(item, torch.Tensor | torch.nn.Module):
            yield f" → global {name}", item
