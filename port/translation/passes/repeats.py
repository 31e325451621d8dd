"""Find repetitions in a captured run: the steps per iteration, and the number of iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import LayerCall, Loop, Operation, Step, Value, each_value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit

FEWEST = 4
"""The fewest iterations that become a loop."""

_NEAREST = 12  # the number of later steps of the same kind that are tried as the next iteration's start


@dataclass(frozen=True)
class Repeat:
    """A repetition of similar steps: ``steps[start : start + period]``, and so on.

    Attributes:
        start: the first step.
        period: the number of steps in an iteration.
        rounds: the number of complete iterations.
        tail: the steps of one more, incomplete iteration, by their indices in it: unread results of the last iteration
            are not captured.
    """

    start: int
    period: int
    rounds: int
    tail: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.period * self.rounds + len(self.tail)


class Repeats:
    """Finds repetitions by the kinds of steps.

    Args:
        steps: the run's steps.
        once: the indices of steps that no loop may contain.
    """

    def __init__(self, steps: list[Step], once: set[int]) -> None:
        numbers: dict[Any, int] = {}
        kinds = [("once", place) if place in once else _kind(step) for place, step in enumerate(steps)]
        self.kinds = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
        self.deeper = [_deeper(step) for step in steps]
        self.following: list[int | None] = [None] * len(steps)
        last: dict[int, int] = {}
        for place in reversed(range(len(steps))):
            self.following[place] = last.get(self.kinds[place])
            last[self.kinds[place]] = place

    def at(self, start: int) -> list[Repeat]:
        """Return the repetitions that start at a step: the longest first, and of these the shortest period."""
        found = [repeat for period in self._periods(start) if (repeat := self._repeat(start, period)) is not None]
        return sorted(found, key=lambda repeat: (-repeat.end, repeat.period))

    def _periods(self, start: int) -> Iterator[int]:
        other = self.following[start]
        for _ in range(_NEAREST):
            if other is None:
                return
            yield other - start
            other = self.following[other]

    def _repeat(self, start: int, period: int) -> Repeat | None:
        kinds, end = self.kinds, start + period
        while end < len(kinds) and kinds[end] == kinds[end - period]:
            end += 1
        rounds = (end - start) // period
        if rounds < FEWEST - 1 or not self._is_whole(start, period):
            return None
        tail = self._tail(start, period, start + period * rounds)
        return Repeat(start, period, rounds, tail) if rounds + bool(tail) >= FEWEST else None

    def _is_whole(self, start: int, period: int) -> bool:
        """Whether calls that begin in an iteration end in it, and vice versa."""
        depth = 0
        for place in range(start, start + period):
            depth += self.deeper[place]
            if depth < 0:
                return False
        return depth == 0

    def _tail(self, start: int, period: int, place: int) -> tuple[int, ...]:
        found = []
        for number in range(period):
            if place < len(self.kinds) and self.kinds[place] == self.kinds[start + number]:
                found.append(number)
                place += 1
        whole = sum(self.deeper[start + number] for number in found) == 0
        return tuple(found) if whole and len(found) < period else ()


def _kind(step: Step) -> Any:
    """Return a key that is equal for corresponding steps of iterations."""
    match step:
        case Operation():
            return step.operator, step.place, step.detached, _shapes(step.results)
        case LayerCall():
            return step.path, step.place, step.detached, _shapes(step.results)
        case ScopeEnter():
            return "enter", step.key, step.place
        case ScopeExit():
            return "leave", step.key
        case FunctionEnter():
            return "enter", step.function, step.place, step.positional, step.named
        case FunctionExit():
            return "leave", step.function
        case Loop():
            return id(step)


def _deeper(step: Step) -> int:
    """Return the change in call depth at a step: 1, 0 or −1."""
    return isinstance(step, ScopeEnter | FunctionEnter) - isinstance(step, ScopeExit | FunctionExit)


def _shapes(results: Any) -> tuple[Any, ...]:
    return tuple((value.shape, value.dtype) for value in each_value(results) if isinstance(value, Value))
