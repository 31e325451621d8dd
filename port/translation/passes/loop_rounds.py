"""Merge similar runs of steps into one loop iteration, by tracing where each operand comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import MARKS, LayerCall, Operation, Step, Value, each_value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import agreed
from port.translation.passes.single_slices import Element, element_of

Origin = tuple[int, int, int]
"""Where an unrolled value is computed: the iteration, the step in it, and the index among the step's results."""

Made = tuple[int, int]
"""The step in an iteration, and the index among its results."""


class Unfit(Exception):
    """The runs are not iterations of a loop: an operand's source follows no pattern."""


@dataclass(frozen=True)
class Slices:
    """Consecutive slices of one tensor that the iterations read: the first index, and whether they go backwards."""

    whole: Value
    axis: int
    start: int
    backwards: bool


@dataclass(frozen=True)
class Numbers:
    """Integers that the iterations read: ``start``, ``start + step``, and so on."""

    start: int
    step: int


@dataclass
class Round:
    """One loop iteration, merged from all.

    Attributes:
        count: the number of iterations.
        steps: the steps of one iteration, with the values of the first.
        before: loop-invariant steps whose results are sliced; they move before the loop.
        carried: (initial value, result of the previous iteration) → the carry inside the loop.
        sliced: slices → the value inside the loop.
        numbers: integers → the value inside the loop.
        inner: a result → the value inside the loop.
        produced: every value of every unrolled iteration → where it is computed.
    """

    count: int
    steps: list[Step] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)
    carried: dict[tuple[Value, Made], Value] = field(default_factory=dict)
    sliced: dict[Slices, Value] = field(default_factory=dict)
    numbers: dict[Numbers, Value] = field(default_factory=dict)
    inner: dict[Made, Value] = field(default_factory=dict)
    produced: dict[Value, Origin] = field(default_factory=dict)


# Arguments that may depend on the iteration's number: JAX accepts an array there.
_NUMBERED = {
    ("aten.select.int", "index"),
    ("aten.select_scatter.default", "index"),
    *((f"aten.{name}.Tensor", "other") for name in ("add", "sub", "mul", "div")),
}


def fitted(rounds: list[list[Step | None]], elements: dict[Value, Element]) -> Round:
    """Merge similar runs of steps into one iteration.

    Args:
        rounds: the steps of each run; None for a step that the last one lacks.
        elements: values from before that are known to be slices of a tensor.

    Raises:
        Unfit: the runs are not iterations of a loop.
    """
    return _Fitting(rounds, elements).round()


class _Fitting:
    def __init__(self, rounds: list[list[Step | None]], elements: dict[Value, Element]) -> None:
        self.rounds, self.elements = rounds, elements
        self.made = Round(len(rounds))
        self.varying: set[Value] = set()  # values inside the loop that vary between iterations
        self.makers: dict[Value, Step] = {}
        self.early: set[int] = set()  # ids of the steps that move before the loop
        self.parts: dict[Value, Value] = {}  # a slice → the slice with its axis kept
        for number, steps in enumerate(rounds):
            for place, step in enumerate(steps):
                for result, value in enumerate(_results(step)):
                    self.made.produced[value] = (number, place, result)
        self.name = next(iter(self.made.produced)).name if self.made.produced else ""

    def round(self) -> Round:
        for place in range(len(self.rounds[0])):
            column = [step for steps in self.rounds if (step := steps[place]) is not None]
            sliced = self._slices(column)
            if sliced is not None:
                self.made.inner[place, 0] = sliced
                continue
            step = self._together(column)
            for result, value in enumerate(_results(step)):
                self.made.inner[place, result] = value
                self.makers[value] = step
                if not isinstance(step, Operation) or any(read in self.varying for read in each_value(step.arguments)):
                    self.varying.add(value)
            self.made.steps.append(step)
        self.made.before = [step for step in self.made.steps if id(step) in self.early]
        self.made.steps = [step for step in self.made.steps if id(step) not in self.early]
        return self.made

    # %% Steps

    def _together(self, column: list[Any]) -> Any:
        first = column[0]
        match first:
            case Operation():
                named = {
                    name: self._tree([step.arguments[name] for step in column], (first.operator, name) in _NUMBERED)
                    for name in first.arguments
                }
                return replace(first, arguments=named, numbers=agreed([step.numbers for step in column]))
            case LayerCall():
                arguments = self._tree([step.arguments for step in column])
                keywords = self._tree([step.keywords for step in column])
                numbers = agreed([step.numbers for step in column])
                return replace(first, arguments=arguments, keywords=keywords, numbers=numbers)
            case ScopeEnter() | FunctionEnter():
                arguments = self._tree([step.arguments for step in column])
                return replace(first, arguments=arguments, numbers=agreed([step.numbers for step in column]))
            case ScopeExit() | FunctionExit():
                return replace(first, results=self._tree([step.results for step in column]))
        raise Unfit

    def _slices(self, column: list[Any]) -> Value | None:
        """Return a step's value inside the loop, if it takes consecutive slices of one tensor; else None."""
        first = column[0]
        if not isinstance(first, Operation) or first.operator not in ("aten.select.int", "aten.slice.Tensor"):
            return None
        found = [each for step in column if (each := element_of(step)) is not None]
        if len(found) < len(column) or len(found) < 2 or found[0].index == found[1].index:
            return None
        whole = self._value([each.whole for each in found])
        if whole in self.varying:
            return None
        self._bring_before(whole)
        return self._slice([replace(each, whole=whole) for each in found])

    def _bring_before(self, value: Value) -> None:
        maker = self.makers.get(value)
        if maker is not None and id(maker) not in self.early:
            assert isinstance(maker, Operation)
            self.early.add(id(maker))
            for read in each_value(maker.arguments):
                self._bring_before(read)

    # %% Operands

    def _tree(self, trees: list[Any], numbered: bool = False) -> Any:
        first = trees[0]
        if any(type(tree) is not type(first) for tree in trees):
            raise Unfit
        match first:
            case Value():
                return self._value(trees)
            case tuple() | list():
                if any(len(tree) != len(first) for tree in trees):
                    raise Unfit
                made = [self._tree(list(parts)) for parts in zip(*trees, strict=True)]
                return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
            case dict():
                if any(tree.keys() != first.keys() for tree in trees):
                    raise Unfit
                return {key: self._tree([tree[key] for tree in trees]) for key in first}
            case slice():
                start, stop, step = (
                    self._tree([getattr(tree, name) for tree in trees]) for name in ("start", "stop", "step")
                )
                return slice(start, stop, step)
        if all(tree is first or tree == first for tree in trees):
            return first
        if numbered and type(first) is int:
            return self._number(trees)
        raise Unfit

    def _number(self, numbers: list[int]) -> Value:
        step = _step(numbers)
        if step is None:
            raise Unfit
        known = self.made.numbers
        value = known.setdefault(Numbers(numbers[0], step), Value(f"{self.name}_number_{len(known)}", (), "int64"))
        self.varying.add(value)
        return value

    def _value(self, values: list[Value]) -> Value:
        first = values[0]
        if first.shape is None:
            if any(value.shape is not None or value.length != first.length for value in values):
                raise Unfit
            return first
        origins = [self.made.produced.get(value) for value in values]
        if all(origin is None for origin in origins):
            return first if all(value is first for value in values) else self._element(values)
        if any(origin is None for origin in origins[1:]) or len(values) < 2:
            raise Unfit
        made = origins[1][1:]  # type: ignore[index]
        if origins == [(number, *made) for number in range(len(values))]:
            return self.made.inner[made]
        if origins[0] is None and origins[1:] == [(number, *made) for number in range(len(values) - 1)]:
            return self._carried(values, made)
        raise Unfit

    def _carried(self, values: list[Value], made: Made) -> Value:
        first, second = values[:2]
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            raise Unfit
        inside = Value(f"{self.name}_carried_{len(self.made.carried)}", first.shape, first.dtype)
        inside = self.made.carried.setdefault((first, made), inside)
        self.varying.add(inside)
        return inside

    def _element(self, values: list[Value]) -> Value:
        found = [self.elements.get(value) for value in values]
        if any(each is None for each in found):
            raise Unfit
        return self._slice(found)  # type: ignore[arg-type]

    def _slice(self, found: list[Element]) -> Value:
        """Return the value inside the loop for consecutive slices of one tensor."""
        first = found[0]
        step = _step([each.index for each in found])
        same = all((each.whole, each.axis, each.kept) == (first.whole, first.axis, first.kept) for each in found)
        if step not in (1, -1) or not same or len(found) < len(self.rounds):
            raise Unfit
        known = self.made.sliced
        shape = first.whole.shape
        assert shape is not None
        shape = (*shape[: first.axis], *shape[first.axis + 1 :])
        inside = Value(f"{self.name}_slice_{len(known)}", shape, first.whole.dtype)
        inside = known.setdefault(Slices(first.whole, first.axis, first.index, step < 0), inside)
        self.varying.add(inside)
        return self._with_axis(inside, first.axis) if first.kept else inside

    def _with_axis(self, inside: Value, axis: int) -> Value:
        if inside not in self.parts:
            assert inside.shape is not None
            shape = (*inside.shape[:axis], 1, *inside.shape[axis:])
            part = self.parts[inside] = Value(f"{inside.name}_part", shape, inside.dtype)
            step = Operation("aten.unsqueeze.default", {"self": inside, "dim": axis}, (part,), False, None)
            self.made.steps.append(step)
            self.varying.add(part)
        return self.parts[inside]


def _results(step: Step | None) -> list[Value]:
    return [] if step is None or isinstance(step, MARKS) else list(each_value(step.results))


def _step(numbers: list[int]) -> int | None:
    """Return the difference of an arithmetic progression; None if the numbers are not one."""
    if len(numbers) < 2:
        return None
    step = numbers[1] - numbers[0]
    return step if all(after - before == step for before, after in pairwise(numbers)) else None
