"""Runtime of methods rewritten to run both branches: three-valued conditions, and selection of assigned variables.

During a capture, a one-element tensor is a condition of unknown truth, and variables that both branches assign are
selected with ``torch.where``. When the same code runs on real numbers it also runs both branches, so that both sides of
a proof draw the same random numbers, and it keeps what the taken branch assigned, as the original does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from port.errors import NoPair

_WITHIN: ContextVar[int] = ContextVar("within", default=0)
"""How many unknown conditions enclose the code that is running."""


@contextmanager
def outside_branches() -> Iterator[None]:
    """Start a run outside any branch, and forget the branches that an exception left open."""
    before = _WITHIN.set(0)
    try:
        yield
    finally:
        _WITHIN.reset(before)


def refuse_statistics(path: str, layer: torch.nn.Module) -> None:
    """Refuse a layer with running statistics in a branch that the original may skip.

    Args:
        path: the layer's path.
        layer: the layer that is being called.

    Raises:
        NoPair: the call is inside such a branch.
    """
    if _WITHIN.get() and layer.training and any(True for _ in layer.buffers()):
        raise NoPair(
            f"{path} ({type(layer).__name__}) has running statistics and is called in a branch that depends on a "
            "random number: a traced JAX program runs both branches, and would count batches that the original skips. "
            "Draw the number outside the compiled step, or use a norm without running statistics"
        )


def is_unknown(value: Any) -> bool:
    """Whether a condition depends on a tensor's value."""
    return isinstance(value, torch.Tensor) and value.numel() == 1


class NoValue:
    """Placeholder for a variable without one value: only one branch assigns it, or the two assign different types."""

    def __init__(self, why: str) -> None:
        self._why = why

    def refuse(self, *args: Any) -> Any:
        """Refuse any use of the variable.

        Raises:
            NoPair: always, with the reason why the variable has no single value.
        """
        raise NoPair(self._why)

    __getattr__ = __getitem__ = __iter__ = __bool__ = __len__ = __call__ = refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __lt__ = __gt__ = refuse


class Branches:
    """The branches of one module's methods.

    Args:
        module: the root module, whose tensors a branch must not write to.
        numbers: whether it runs on real numbers, so that the taken branch is known.
    """

    def __init__(self, module: torch.nn.Module, *, numbers: bool) -> None:
        self.module, self.numbers = module, numbers
        self.unset = NoValue("a variable that only one of two branches assigns is used after both")

    def test(self, value: Any, variables: dict[str, Any]) -> Test:
        """Open a pair of branches and return their condition.

        Args:
            value: the condition's value.
            variables: the method's local variables.
        """
        return Test(self, value, variables)

    def any_of(self, *operands: Callable[[], Any]) -> Any:
        """Evaluate ``a or b``: true as soon as one operand is known to be true."""
        unknown = value = None
        for operand in operands:
            value = operand()
            if is_unknown(value):
                unknown = value if unknown is None else torch.logical_or(unknown, value)
            elif value:
                return value
        return value if unknown is None else unknown

    def all_of(self, *operands: Callable[[], Any]) -> Any:
        """Evaluate ``a and b``: false as soon as one operand is known to be false."""
        unknown = value = None
        for operand in operands:
            value = operand()
            if is_unknown(value):
                unknown = value if unknown is None else torch.logical_and(unknown, value)
            elif not value:
                return value
        return value if unknown is None else unknown

    def not_(self, value: Any) -> Any:
        """Evaluate ``not a``."""
        return torch.logical_not(value) if is_unknown(value) else not value

    def either(self, condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """Evaluate ``one if condition else other``."""
        if not is_unknown(condition):
            return one() if condition else other()
        test = self.test(condition, {})
        chosen = test.selected("the value", one(), other())
        test.end()
        return chosen

    def state(self, variables: dict[str, Any]) -> list[tuple[str, torch.Tensor, int]]:
        """Return the tensors that a branch must not write to, with their version counters."""
        named = [*self.module.named_parameters(), *self.module.named_buffers(), *variables.items()]
        return [(name, tensor, tensor._version) for name, tensor in named if isinstance(tensor, torch.Tensor)]


class Test:
    """The condition of an ``if`` statement.

    Attributes:
        may_hold: whether the first branch runs.
        may_fail: whether the other branch runs.
        is_unknown: whether both run and the variables that they assign are selected.
    """

    def __init__(self, branches: Branches, value: Any, variables: dict[str, Any]) -> None:
        self.is_unknown = is_unknown(value)
        self.may_hold = self.is_unknown or bool(value)
        self.may_fail = self.is_unknown or not value
        if self.is_unknown:
            self.condition = value.reshape(()) if value.dtype is torch.bool else value.reshape(()) != 0
            self._branches, self._before = branches, branches.state(variables)
            self._names = dict(branches.module.named_buffers())
            self._within = _WITHIN.set(_WITHIN.get() + 1)

    def end(self) -> None:
        """Close both branches.

        Raises:
            NoPair: a branch wrote to a tensor that existed before it, or replaced a buffer; names it.
        """
        if not self.is_unknown:
            return
        _WITHIN.reset(self._within)
        for name, tensor, version in self._before:
            if tensor._version != version:
                raise NoPair(
                    f"a branch that depends on a random number writes into {name}, and a traced JAX program runs both "
                    "branches: make a new tensor instead (x = x + y for x += y)"
                )
        now = dict(self._branches.module.named_buffers())
        replaced = [name for name, buffer in self._names.items() if now.get(name) is not buffer]
        if replaced:
            raise NoPair(f"a branch that depends on a random number replaces the buffer {replaced[0]}")

    def selected(self, name: str, one: Any, other: Any) -> Any:
        """Return a variable's value after both branches.

        Args:
            name: the variable's name.
            one: its value after the first branch.
            other: its value after the other branch.
        """
        if one is other:
            return one
        both = one, other
        if all(isinstance(each, bool) or _is_truth(each) for each in both):
            return self._truth(one, other)  # also on real numbers, so that later branches run alike
        if self._branches.numbers:
            return one if bool(self.condition) else other
        if all(isinstance(each, torch.Tensor) for each in both) and one.shape == other.shape:
            return torch.where(self.condition, one, other)
        if all(isinstance(each, int | float) for each in both):
            return one if one == other else torch.where(self.condition, one, other)
        if type(one) is type(other) and isinstance(one, tuple | list) and len(one) == len(other):
            return type(one)(self.selected(name, *items) for items in zip(one, other, strict=True))
        return NoValue(
            f"{name} is {_kind(one)} in one branch and {_kind(other)} in the other, and a random number decides which: "
            "in a traced JAX program a value has one type and one shape"
        )

    def _truth(self, one: Any, other: Any) -> Any:
        if one is True and other is False:
            return self.condition
        if one is False and other is True:
            return torch.logical_not(self.condition)
        if isinstance(one, bool) and isinstance(other, bool):
            return one
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            return torch.where(self.condition, one, other)
        known, unknown = (one, other) if isinstance(one, bool) else (other, one)
        condition = self.condition if known is one else torch.logical_not(self.condition)
        if known:
            return torch.logical_or(condition, unknown)
        return torch.logical_and(torch.logical_not(condition), unknown)


def _is_truth(value: Any) -> bool:
    return is_unknown(value) and value.dtype is torch.bool


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "no value" if isinstance(value, NoValue) else repr(value)
