"""Compare two modules by everything that they hold, except the values of their weights."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch

from port.translation.frontend.origins.frame_objects import MISSING, attribute

_SIMPLE = (int, float, complex, str, bytes)
_DEPTH = 8
_PLACES = re.compile(r",? ?\b(device|dtype)=[^,)]*")


def is_torchs(cls: type) -> bool:
    """Whether a class is torch's own."""
    return cls.__module__.split(".")[0] == "torch"


def description(root: torch.nn.Module) -> list[Any]:
    """Return a description that is equal for alike modules: classes, tensor shapes, attributes and tied weights.

    It leaves out what training may change (values of tensors, requires_grad, the mode), and the device and the
    floating-point dtype.
    """
    owners: dict[int, str] = {}
    found = []
    for path, module in root.named_modules(remove_duplicate=False):
        held = vars(module)
        tensors = [
            (name, tensor is not None and (owners.setdefault(id(tensor), f"{path}.{name}"), described(tensor)))
            for kind in ("_parameters", "_buffers")
            for name, tensor in held[kind].items()
        ]
        first = owners.setdefault(id(module), path)
        unsaved = sorted(held["_non_persistent_buffers_set"])
        repr_ = _PLACES.sub("", module.extra_repr()) if is_torchs(type(module)) else ""
        found.append((path, first, _kind(type(module)), tensors, unsaved, _attributes(held), repr_))
    return found


def _attributes(held: dict[str, Any]) -> Any:
    """Describe the public attributes of a module or another object."""
    return {
        name: described(value)
        for name, value in held.items()
        if not name.startswith("_") and name != "training" and not isinstance(value, torch.dtype | torch.device)
    }


def described(value: Any, depth: int = 0) -> Any:
    """Convert a value to a form that is equal for alike values, without running the user's code."""
    if depth > _DEPTH:
        return ...

    def each(values: Any) -> Any:
        return tuple(described(item, depth + 1) for item in values)

    kind = _kind(type(value))
    if isinstance(value, Enum):
        return kind, value.name
    for simple in _SIMPLE:
        if isinstance(value, simple):
            words: Any = simple.__repr__  # under which NaN equals itself
            return kind, words(value)
    if isinstance(value, torch.Tensor):
        return kind, _form(value)
    if isinstance(value, torch.nn.Module):
        return kind
    if isinstance(value, np.ndarray):
        return kind, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, type):
        return kind, _kind(value)
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
        return kind, value.__module__, value.__qualname__, getattr(value, "__code__", None)
    if isinstance(value, functools.partial):
        return kind, each((value.func, value.args, value.keywords))
    if isinstance(value, dict):
        return kind, each(value), each(value.values())
    if isinstance(value, tuple | list):
        return kind, each(value)
    if isinstance(value, set | frozenset):
        return kind, tuple(sorted(map(repr, each(value))))
    if isinstance(value, torch.dtype | torch.device | np.generic):
        return kind, str(value)
    held = vars(value) if hasattr(type(value), "__dict__") and hasattr(value, "__dict__") else {}
    names = [name for name in held if not name.startswith("_")]
    return kind, tuple(names), each(held[name] for name in names)


def _kind(cls: type) -> Any:
    """Identify a class by its name: a class defined inside a function is a new object at every call."""
    made_anew = cls.__module__ == "torch.nn.utils.parametrize"
    return cls.__module__, cls.__qualname__, tuple(map(_kind, cls.__bases__)) if made_anew else ()


def _form(tensor: torch.Tensor) -> Any:
    if torch.nn.parameter.is_lazy(tensor):
        return None
    return tuple(tensor.shape), "floating" if tensor.is_floating_point() else str(tensor.dtype)


def are_tables_the_same(module: torch.nn.Module, construct: Callable[[int], torch.nn.Module]) -> bool:
    """Whether a module holds the tables that its constructor computes, such as sines and cosines.

    A table is a tensor that every construction computes alike. Running statistics are not tables: they start as zeros
    or ones, and training updates them.

    Args:
        module: the module.
        construct: constructs a module like it; its random numbers are drawn from the seed.
    """
    one, other = (dict(_tables(construct(seed))) for seed in (1, 2))
    held = dict(_tables(module))
    return all(
        _are_close(held[name], table)
        for name, table in one.items()
        if name in held and not _starts_plainly(table) and name in other and torch.equal(table, other[name])
    )


def _tables(root: torch.nn.Module) -> Iterator[tuple[Any, torch.Tensor]]:
    for path, module in root.named_modules():
        held = vars(module)
        for name, tensor in (*held["_buffers"].items(), *held.items()):
            if isinstance(tensor, torch.Tensor) and not torch.nn.parameter.is_lazy(tensor) and not tensor.is_meta:
                yield (path, name), tensor.detach().cpu()


def _starts_plainly(table: torch.Tensor) -> bool:
    return not table.numel() or any(bool((table == number).all()) for number in (0, 1))


def _are_close(held: torch.Tensor, table: torch.Tensor) -> bool:
    """Whether two tensors are equal, within 8 machine epsilons of the coarser dtype."""
    if held.shape != table.shape:
        return False
    if not held.is_floating_point() or not table.is_floating_point():
        return torch.equal(held, table)
    eps = max(torch.finfo(tensor.dtype).eps for tensor in (held, table))
    return torch.allclose(held.double(), table.double(), rtol=8 * eps, atol=8 * eps, equal_nan=True)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value can be passed as an argument again: a number, string, class, function, or container of these."""

    def are_plain(values: Any) -> bool:
        return all(is_plain(item, depth + 1) for item in values)

    if depth > _DEPTH or isinstance(value, torch.Tensor | torch.nn.Module) or value is MISSING:
        return False
    if isinstance(value, Enum | type | FunctionType | BuiltinFunctionType | torch.dtype | torch.device | np.generic):
        return True
    if value is None or value is Ellipsis or isinstance(value, (*_SIMPLE, range, slice)):
        return True
    if isinstance(value, functools.partial):
        return are_plain((value.func, value.args, value.keywords))
    if isinstance(value, dict):
        return are_plain(value) and are_plain(value.values())
    if isinstance(value, tuple | list | set | frozenset):
        return are_plain(value)
    held = getattr(value, "__dict__", None)
    return type(held) is dict and bool(held) and are_plain(held.values())


def held_by(module: torch.nn.Module, name: str) -> Any:
    """Look up an attribute of a module without running the user's code; `MISSING` if it has none."""
    value = attribute(module, name)
    return MISSING if isinstance(value, MethodType) else value
