"""Locate a number in a copy of a script's optimizer or scheduler, to try it at another value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Holder(Protocol):
    """Holds a number."""

    def get(self) -> Any:
        """The number."""

    def set(self, value: Any) -> None:
        """Replace the number; setting the original number restores the original state."""


@dataclass(frozen=True)
class Held:
    """A number in a dict or a list, possibly within a tuple."""

    container: Any
    key: Any
    place: int | None = None

    def get(self) -> Any:
        """The number."""
        value = self.container[self.key]
        return value if self.place is None else value[self.place]

    def set(self, value: Any) -> None:
        """Replace the number."""
        if self.place is not None:
            among = list(self.container[self.key])
            among[self.place] = value
            value = type(self.container[self.key])(among)
        self.container[self.key] = value


class RateOfGroup:
    """A group's learning rate, which a schedule multiplies for the first update.

    Args:
        group: the optimizer's parameter group.
    """

    def __init__(self, group: dict[str, Any]) -> None:
        self._group, self._rate = group, group["lr"]
        self._initial = group.get("initial_lr", group["lr"])

    def get(self) -> Any:
        """The rate before the schedule."""
        return self._initial

    def set(self, value: Any) -> None:
        """Replace the number; setting the original number restores the original state."""
        same = value == self._initial or not self._initial
        self._group["lr"] = self._rate if same else self._rate * (value / self._initial)


class HeldByConstruction:
    """A number from which a scheduler computes what it holds, as `OneCycleLR` does from ``total_steps``.

    Args:
        scheduler: a copy of the script's scheduler.
        arguments: its constructor arguments, by name.
        name: the argument's name; None for the optimizer's rate, which it may replace.
    """

    def __init__(self, scheduler: Any, arguments: Mapping[str, Any], name: str | None) -> None:
        self._scheduler, self._name, self._arguments = scheduler, name, arguments
        self._before = vars(scheduler).copy(), [group.copy() for group in scheduler.optimizer.param_groups]

    def get(self) -> Any:
        """The number."""
        return self._scheduler.optimizer.defaults["lr"] if self._name is None else self._arguments[self._name]

    def set(self, value: Any) -> None:
        """Replace the number; setting the original number restores the original state."""
        held, groups = self._before
        for group, kept in zip(self._scheduler.optimizer.param_groups, groups, strict=True):
            group.update(kept)
        if value != self.get():
            held = self._constructed_at(value)
        vars(self._scheduler).update(held)

    def _constructed_at(self, value: Any) -> dict[str, Any]:
        for group in self._scheduler.optimizer.param_groups:
            before = group.pop("initial_lr", group["lr"])
            group["lr"] = before if self._name is not None else value
        arguments = {**self._arguments, **({self._name: value} if self._name is not None else {})}
        return vars(type(self._scheduler)(**arguments))
