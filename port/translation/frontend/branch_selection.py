"""What a method that selects its branches asks while it runs: truth in three values, and the selected variables.

While a program is captured, a tensor of one element is a truth that is not known, and what both branches assign is
selected by ``torch.where``. With numbers the same code runs both branches too, so that both sides of a proof draw
alike, and keeps what the branch that is taken assigned, as the original does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from port.errors import NoPair

_WITHIN: ContextVar[int] = ContextVar("within", default=0)
"""How many conditions that are not known the code that runs stands under."""


@contextmanager
def outside_branches() -> Iterator[None]:
    """A run begins outside of any branch, and what it raises within one says nothing of the next run."""
    before = _WITHIN.set(0)
    try:
        yield
    finally:
        _WITHIN.reset(before)


def refuse_statistics(path: str, layer: torch.nn.Module) -> None:
    """Refuse a layer that keeps statistics of what it is called on, in a branch that the original may not run.

    Args:
        path: of the layer.
        layer: called in such a branch or not.

    Raises:
        NoPair: it is.
    """
    if _WITHIN.get() and layer.training and any(True for _ in layer.buffers()):
        raise NoPair(
            f"{path} ({type(layer).__name__}) has running statistics, and is called in a branch that a drawn number "
            "decides: a traced JAX program runs both branches, and would count the batches that the original leaves "
            "out. Draw outside of the compiled step, or take a norm without running statistics"
        )


def is_unknown(value: Any) -> bool:
    """Whether something is a truth that depends on a tensor."""
    return isinstance(value, torch.Tensor) and value.numel() == 1


class NoValue:
    """What a variable holds that no single value can be given: one branch leaves it, or both give different things."""

    def __init__(self, why: str) -> None:
        self._why = why

    def refuse(self, *args: Any) -> Any:
        """It is used.

        Raises:
            NoPair: says why it has no value.
        """
        raise NoPair(self._why)

    __getattr__ = __getitem__ = __iter__ = __bool__ = __len__ = __call__ = refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __lt__ = __gt__ = refuse


class Branches:
    """The branches of one module's methods.

    Args:
        module: the root: what a branch may not write to.
        numbers: whether it runs with numbers, so that the branch that is taken can be told.
    """

    def __init__(self, module: torch.nn.Module, *, numbers: bool) -> None:
        self.module, self.numbers = module, numbers
        self.unset = NoValue("a variable that only one of two branches gives a value to is used behind both")

    def test(self, value: Any, variables: dict[str, Any]) -> Test:
        """A branch's condition; its branches begin.

        Args:
            value: of the condition.
            variables: the method's.
        """
        return Test(self, value, variables)

    def any_of(self, *operands: Callable[[], Any]) -> Any:
        """``a or b``: true as soon as one operand is known to be true."""
        unknown = value = None
        for operand in operands:
            value = operand()
            if is_unknown(value):
                unknown = value if unknown is None else torch.logical_or(unknown, value)
            elif value:
                return value
        return value if unknown is None else unknown

    def all_of(self, *operands: Callable[[], Any]) -> Any:
        """``a and b``: false as soon as one operand is known to be false."""
        unknown = value = None
        for operand in operands:
            value = operand()
            if is_unknown(value):
                unknown = value if unknown is None else torch.logical_and(unknown, value)
            elif not value:
                return value
        return value if unknown is None else unknown

    def not_(self, value: Any) -> Any:
        """``not a``."""
        return torch.logical_not(value) if is_unknown(value) else not value

    def either(self, condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``one if condition else other``."""
        if not is_unknown(condition):
            return one() if condition else other()
        test = self.test(condition, {})
        chosen = test.selected("the value", one(), other())
        test.end()
        return chosen

    def state(self, variables: dict[str, Any]) -> list[tuple[str, torch.Tensor, int]]:
        """The tensors that a branch may not write into, and how often each was written to."""
        named = [*self.module.named_parameters(), *self.module.named_buffers(), *variables.items()]
        return [(name, tensor, tensor._version) for name, tensor in named if isinstance(tensor, torch.Tensor)]


class Test:
    """A condition under which one of two branches is run.

    Attributes:
        may_hold: whether the first is run.
        may_fail: whether the other is.
        is_unknown: whether both are, and what they assign is selected.
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
        """Both branches have ended.

        Raises:
            NoPair: one of them wrote into a tensor that was there before; says which.
        """
        if not self.is_unknown:
            return
        _WITHIN.reset(self._within)
        for name, tensor, version in self._before:
            if tensor._version != version:
                raise NoPair(
                    f"a branch that a drawn number decides writes into {name}, and a traced JAX program runs both "
                    "branches: let it give a new tensor (x = x + y for x += y)"
                )
        now = dict(self._branches.module.named_buffers())
        replaced = [name for name, buffer in self._names.items() if now.get(name) is not buffer]
        if replaced:
            raise NoPair(f"a branch that a drawn number decides replaces the buffer {replaced[0]}")

    def selected(self, name: str, one: Any, other: Any) -> Any:
        """What a variable holds behind both branches.

        Args:
            name: the variable's.
            one: what it holds behind the first.
            other: what it holds behind the other.
        """
        if one is other:
            return one
        both = one, other
        if all(isinstance(each, bool) or _is_truth(each) for each in both):
            return self._truth(one, other)  # with numbers too: the branches behind it are the same then
        if self._branches.numbers:
            return one if bool(self.condition) else other
        if all(isinstance(each, torch.Tensor) for each in both) and one.shape == other.shape:
            return torch.where(self.condition, one, other)
        if all(isinstance(each, int | float) for each in both):
            return one if one == other else torch.where(self.condition, one, other)
        if type(one) is type(other) and isinstance(one, tuple | list) and len(one) == len(other):
            return type(one)(self.selected(name, *items) for items in zip(one, other, strict=True))
        return NoValue(
            f"{name} is {_kind(one)} in one branch and {_kind(other)} in the other, and a number that is drawn decides "
            "which: a traced JAX program gives one kind of thing alone"
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
