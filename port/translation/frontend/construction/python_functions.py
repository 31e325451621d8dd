"""Replacements for functions of Python and torch that would lose a number's origin, for use by constructors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from port.translation.ir.origin_numbers import OriginFloat, OriginInt, origin_of, worked_out


class _KeepsOrigin(type):
    """Metaclass of a stand-in for a built-in class that keeps the origin of a number it converts."""

    own: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.own)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.own)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.own

    def __hash__(cls) -> int:
        return hash(cls.own)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], OriginInt | OriginFloat):
            return worked_out(cls.own.__name__, cls.own, args[0])
        return cls.own(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.own, name)


class _Int(metaclass=_KeepsOrigin):
    own = int


class _Float(metaclass=_KeepsOrigin):
    own = float


class _Sized(_KeepsOrigin):
    """Metaclass of a stand-in for ``torch.Tensor``, whose call with lengths no torch function mode sees."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        are_lengths = args and not kwargs and all(isinstance(length, int) for length in args)
        if are_lengths and any(origin_of(length) is not None for length in args):
            return torch.zeros(*args)  # torch.Tensor(…) leaves its values unspecified
        return cls.own(*args, **kwargs)


class _Tensor(metaclass=_Sized):
    own = torch.Tensor


class _Torch(ModuleType):
    """The module torch, with that stand-in for ``Tensor``."""

    Tensor = FloatTensor = _Tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


_TORCH = _Torch("torch")
_SQRT = math.sqrt


def _sqrt(number: Any) -> Any:
    return worked_out("math.sqrt", _SQRT, number) if origin_of(number) is not None else _SQRT(number)


def _of_several(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``max`` or ``min`` so that the result remembers all of its operands."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        numbers = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
        if len(numbers) > 1 and not kwargs and any(origin_of(number) is not None for number in numbers):
            return worked_out(function.__name__, function, *numbers)
        return function(*args, **kwargs)

    return chosen


_CHOOSING = {function.__name__: _of_several(function) for function in (max, min)}


@contextmanager
def keeping_origins(modules: Iterable[ModuleType], note_range: Callable[[int], Any]) -> Iterator[None]:
    """Replace functions in some Python modules by ones that keep origins, within the context.

    Args:
        modules: the modules that define the user's classes.
        note_range: called with the ``n`` of each ``range(n)`` that has an origin.
    """

    def noted_range(*ends: Any) -> range:
        if len(ends) == 1 and origin_of(ends[0]) is not None:
            note_range(ends[0])
        return builtins.range(*ends)

    replaced = {"int": _Int, "float": _Float, "range": noted_range, **_CHOOSING}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(math, "sqrt", _sqrt))
        for module in modules:
            own = {name: function for name, function in replaced.items() if name not in vars(module)}
            own |= {name: _sqrt for name, value in vars(module).items() if value is _SQRT}
            own |= {name: _TORCH for name, value in vars(module).items() if value is torch}
            stack.enter_context(mock.patch.dict(vars(module), own))
        yield
