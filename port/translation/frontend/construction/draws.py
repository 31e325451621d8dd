"""Record how constructors draw their parameters: ``nn.init.normal_(weight, std=config.initializer_range)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from port.translation.frontend.construction.sizes import storage_of
from port.translation.ir.origin_numbers import origin_of

_KINDS = {"normal_": ("normal", {"mean": 0.0, "std": 1.0}), "uniform_": ("uniform", {"a": 0.0, "b": 1.0})}
_SHORT = {"from": "a", "to": "b"}
"""Argument names of a tensor's own method → those of `torch.nn.init`."""


@dataclass(frozen=True)
class OpenDraw:
    """A draw with a parameter whose origin is known.

    Attributes:
        kind: ``normal`` or ``uniform``.
        numbers: the mean and the standard deviation, or the lower and the upper bound.
    """

    kind: str
    numbers: tuple[Any, ...]


class Draws(TorchFunctionMode):
    """Torch function mode that records how tensors are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[Any, OpenDraw] = {}
        self._held: list[Any] = []  # a storage's address is unique only while it is alive

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        kind, parameters = _KINDS.get(getattr(function, "__name__", ""), ("", {}))
        named = {"tensor": args[0]} if args else dict(kwargs or {})
        drawn = named.get("tensor")
        if kind and isinstance(drawn, torch.Tensor):
            parameters_named = {_SHORT.get(name, name): value for name, value in (kwargs or {}).items()}
            numbers = parameters | dict(zip(parameters, args[1:], strict=False))
            numbers |= {name: value for name, value in parameters_named.items() if name in parameters}
            self._found.pop(storage_of(drawn), None)
            if any(origin_of(number) is not None for number in numbers.values()):
                self._found[storage_of(drawn)] = OpenDraw(kind, tuple(numbers.values()))
                self._held.append(drawn)
        return made

    def of(self, tensor: Any) -> OpenDraw | None:
        """Return a tensor's last draw; None where none of its parameters has an origin."""
        return self._found.get(storage_of(tensor))
