"""Turn any value into readable JSON data: numbers unchanged, tensors by shape, objects by class."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import torch

MOST_ITEMS = 20
LONGEST = 200


def class_name(thing: object) -> str:
    """An object's class with its module: "torch.nn.modules.linear.Linear"; "Net" for a class of the script."""
    cls = thing if isinstance(thing, type) else type(thing)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def tensor_kind(tensor: torch.Tensor) -> str:
    """Shape and dtype: "(64, 10) float32"; a 0-d tensor is "() float32"."""
    return f"({', '.join(map(str, tensor.shape))}{',' if tensor.dim() == 1 else ''}) {dtype_name(tensor.dtype)}"


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name without the "torch." prefix."""
    return str(dtype).removeprefix("torch.")


def described(value: Any, tensor: Callable[[torch.Tensor], Any] | None = None) -> Any:
    """Convert a value to JSON data.

    Args:
        value: anything.
        tensor: how to describe a tensor; by default, by shape and dtype.
    """
    if isinstance(value, torch.Tensor):
        return tensor(value) if tensor is not None else {"tensor": tensor_kind(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value[:LONGEST] if isinstance(value, str) else value
    if isinstance(value, torch.dtype | torch.device | torch.Size):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): described(item, tensor) for key, item in islice(value.items(), MOST_ITEMS)}
    if isinstance(value, list | tuple | set | frozenset):
        return [described(item, tensor) for item in islice(value, MOST_ITEMS)]
    if isinstance(value, slice):
        return {"slice": [described(item, tensor) for item in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return "..."
    if callable(value) and hasattr(value, "__qualname__"):
        return {"function": source_of(value)}
    return {"object": class_name(value)}


def shapes_in(description: Any) -> list[tuple[int, ...]]:
    """The shapes of the tensors in `described`'s result, in order."""
    if isinstance(description, Mapping):
        if isinstance(kind := description.get("tensor"), str):
            return [tuple(int(one) for one in kind[1 : kind.index(")")].split(",") if one.strip())]
        description = list(description.values())
    return [shape for one in description for shape in shapes_in(one)] if isinstance(description, list) else []


def source_of(function: Any) -> str:
    """A function's name, or a lambda's source."""
    if getattr(function, "__name__", "") != "<lambda>":
        module = getattr(function, "__module__", None)
        return (
            function.__qualname__ if module in (None, "__main__", "builtins") else f"{module}.{function.__qualname__}"
        )
    try:
        return " ".join(inspect.getsource(function).split())[:LONGEST]
    except (OSError, TypeError):
        return "a lambda"


def tensors_in(value: Any, path: str = "") -> list[tuple[str, torch.Tensor]]:
    """Every tensor within lists, tuples, mappings and dataclass-like objects, with its path: "0", "ids", "1.0"."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(number), item) for number, item in enumerate(value)]
    elif hasattr(value, "__dataclass_fields__"):
        items = [(name, getattr(value, name)) for name in value.__dataclass_fields__]
    else:
        return []
    return [found for name, item in items for found in tensors_in(item, f"{path}.{name}" if path else name)]


def number_of(value: Any) -> float | None:
    """A tensor of one element as a number."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        return float(value.detach())
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
