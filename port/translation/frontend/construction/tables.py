"""Record how constructors compute tables: ``1 / base ** (torch.arange(0, dim, 2) / dim)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from port.translation.frontend.construction.sizes import storage_of
from port.translation.ir.origin_numbers import origin_of

_SAME = ("clone", "contiguous", "detach", "float", "double", "to", "type", "type_as", "requires_grad_")
"""Functions that keep a tensor's values, up to precision."""
_BINARY = {
    **{name: name for name in ("add", "sub", "mul", "div", "pow", "floor_divide")},
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__floordiv__": "floor_divide",
    "true_divide": "div",
    "multiply": "mul",
    "divide": "div",
    "subtract": "sub",
    "__pow__": "pow",
}
_REFLECTED = {
    "__radd__": "add",
    "__rsub__": "sub",
    "__rmul__": "mul",
    "__rtruediv__": "div",
    "__rdiv__": "div",
    "__rpow__": "pow",
    "__rfloordiv__": "floor_divide",
}
_NUMBERS = {"tensor": 0, "as_tensor": 0, "scalar_tensor": 0, "fill_": 1, "constant_": 1}
"""Functions that make a scalar tensor of a number, or fill one with it → the place of the number."""
_UNARY = ("exp", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "tanh")


@dataclass(frozen=True)
class TableFormula:
    """The formula of a table.

    Attributes:
        operator: torch's name of the operator; ``tensor`` for the number itself.
        operands: numbers, with their origins if known, and other tables.
    """

    operator: str
    operands: tuple[Any, ...]

    @property
    def is_open(self) -> bool:
        """Whether a number in the formula has an origin."""
        return any(
            operand.is_open if isinstance(operand, TableFormula) else origin_of(operand) is not None
            for operand in self.operands
        )


class TableFormulas(TorchFunctionMode):
    """Torch function mode that records how tensors are computed elementwise from ``arange`` and numbers.

    A number alone is recorded where the tensor is a scalar.
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[Any, TableFormula] = {}
        self._held: list[Any] = []  # a storage's address is unique only while it is alive

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if isinstance(made, torch.Tensor):
            found = _number(name, made, args, kwargs or {}) or self._formula(name, args, kwargs or {})
            if found is not None:
                self._found[storage_of(made)] = found
                self._held.append(made)
            elif any(made is argument for argument in args):
                self._found.pop(storage_of(made), None)  # written in place
        elif name == "__setitem__":
            self._found.pop(storage_of(args[0]), None)
        return made

    def of(self, tensor: Any) -> TableFormula | None:
        """Return a tensor's formula; None where it is unknown."""
        return self._found.get(storage_of(tensor))

    def _formula(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TableFormula | None:
        if name == "arange":
            ends = args or tuple(kwargs[each] for each in ("start", "end", "step") if each in kwargs)
            return TableFormula(name, tuple(ends)) if ends and all(isinstance(end, int) for end in ends) else None
        if name == "copy_":
            is_whole = isinstance(args[1], torch.Tensor) and args[0].shape == args[1].shape
            return self.of(args[1]) if is_whole else None
        if name in _SAME and args:
            return self.of(args[0]) if isinstance(args[0], torch.Tensor) else None
        if name in _UNARY and len(args) == 1:
            return self._of(name, args)
        if len(args) == 2 and not {*kwargs} - {"input", "other"}:
            if name in _BINARY:
                return self._of(_BINARY[name], args)
            if name in _REFLECTED:
                return self._of(_REFLECTED[name], (args[1], args[0]))
        return None

    def _of(self, operator: str, args: tuple[Any, ...]) -> TableFormula | None:
        operands = [self.of(each) if isinstance(each, torch.Tensor) else each for each in args]
        if any(isinstance(each, bool) or not isinstance(each, int | float | TableFormula) for each in operands):
            return None
        return TableFormula(operator, tuple(operands))


def _number(name: str, made: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TableFormula | None:
    """Return the formula of a scalar tensor made of a number: ``torch.tensor(config.width**0.5)``."""
    if name not in _NUMBERS or made.ndim:
        return None
    named = [kwargs[each] for each in ("data", "s", "value", "val") if each in kwargs]
    number = next(iter([*args[_NUMBERS[name] :], *named]), None)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return TableFormula("tensor", (number,))
