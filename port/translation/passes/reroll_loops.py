"""Reroll loops that torch.export has unrolled: ``for x_t in x.unbind(1): h = cell(x_t, h)``."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from port.translation.ir.graph import Carried, Graph, LayerCall, Loop, Operation, Sliced, Step, Value
from port.translation.ir.module_calls import ScopeEnter
from port.translation.ir.number import rounds_said
from port.translation.ir.origin_numbers import with_origin
from port.translation.passes.dead_code import is_unread_draw, without_dead_code
from port.translation.passes.dissolve_functions import without_functions
from port.translation.passes.loop_results import Leaving
from port.translation.passes.loop_rounds import Round, Unfit, fitted
from port.translation.passes.repeats import FEWEST, Repeat, Repeats
from port.translation.passes.single_slices import Element, elements_of
from port.translation.passes.stateful import is_stateful


def rolled_loops(graph: Graph, *, training: bool) -> Graph:
    """Reroll a graph's loops; return the same graph if there are none.

    A loop is rerolled if every iteration does the same with the result of the one before, the next slices of tensors,
    and values from before the loop. Functions are inlined if that allows more loops.

    Args:
        graph: the graph from `port.translation.frontend.export`.
        training: its mode.
    """
    made, plain = _rolled(graph, training=training), without_functions(graph)
    if plain is graph:
        return made
    other = _rolled(plain, training=training)
    return made if _loops_in(made) == _loops_in(other) else other


def _loops_in(graph: Graph) -> list[tuple[Any, int]]:
    """Return each loop's number of iterations, and the number of operators and layers in one."""
    loops = [step for step in graph.steps if isinstance(step, Loop)]
    return [(loop.length, sum(isinstance(step, Operation | LayerCall) for step in loop.steps)) for loop in loops]


def _rolled(graph: Graph, *, training: bool) -> Graph:
    sizes = [step for step in graph.steps if _is_of_sizes(step)]
    rest = [step for step in graph.steps if not _is_of_sizes(step)]
    rolling = _Rolling(training, dict(graph.written))
    steps = rolling.rolled(rest)
    if len(steps) == len(rest) and all(map(operator.is_, steps, rest)):
        return graph
    return replace(graph, steps=(*sizes, *steps), written=rolling.written)


def stateful_loops(graph: Graph, which: Iterable[bool] = itertools.repeat(True)) -> Graph:
    """Mark a graph's loops as stateful, all or some of them: they then carry the module from iteration to iteration."""
    flags = iter(which)
    steps = tuple(
        replace(step, stateful=next(flags) or step.stateful) if isinstance(step, Loop) else step for step in graph.steps
    )
    return replace(graph, steps=steps)


def with_same_loops(graphs: dict[bool, Graph]) -> dict[bool, Graph]:
    """Mark loops as stateful in all modes if they are in one, so that the modes share a source.

    Graphs with different numbers of loops are returned unchanged.
    """
    loops = [[step for step in graph.steps if isinstance(step, Loop)] for graph in graphs.values()]
    if len({len(found) for found in loops}) > 1:
        return graphs
    stateful = [any(loop.stateful for loop in together) for together in zip(*loops, strict=True)]
    return {training: stateful_loops(graph, stateful) for training, graph in graphs.items()}


class _Rolling:
    """Rerolls the loops of a run, from the first step to the last."""

    def __init__(self, training: bool, written: dict[str, Value]) -> None:
        self.training, self.written = training, written
        self.done: list[Step] = []
        self.elements: dict[Value, Element] = {}

    def rolled(self, rest: list[Step]) -> list[Step]:
        found = self._first(rest)
        while found is not None:
            before, loop, rest = found
            self.done += [*before, *loop]
            for step in loop:
                self.elements.update(elements_of(step))
            found = self._first(rest)
        return without_dead_code(self.done + rest, set(self.written.values()))

    def _first(self, steps: list[Step]) -> tuple[list[Step], list[Step], list[Step]] | None:
        """Find the first loop: the steps before it, the loop with its auxiliary steps, and the steps after it."""
        once = {place for place, step in enumerate(steps) if getattr(step, "detached", False)}
        repeats = Repeats(steps, once)
        for start in range(len(steps)):
            for repeat in repeats.at(start):
                made = self._loop(steps, repeat)
                if made is not None:
                    return made
            self.elements.update(elements_of(steps[start]))
        return None

    def _loop(self, steps: list[Step], repeat: Repeat) -> tuple[list[Step], list[Step], list[Step]] | None:
        # The first iterations may lack the carry that later ones have: try again without them.
        while repeat.rounds + bool(repeat.tail) >= FEWEST:
            made = self._fitted(steps, repeat)
            if made is not None:
                return steps[: repeat.start], *made
            for step in steps[repeat.start : repeat.start + repeat.period]:
                self.elements.update(elements_of(step))
            repeat = replace(repeat, start=repeat.start + repeat.period, rounds=repeat.rounds - 1)
        return None

    def _fitted(self, steps: list[Step], repeat: Repeat) -> tuple[list[Step], list[Step]] | None:
        rounds = _rounds(steps, repeat)
        try:
            fitted(rounds[:FEWEST], self.elements)
            made = fitted(rounds, self.elements)
        except Unfit:
            return None
        calls = any(isinstance(step, LayerCall | ScopeEnter) for step in made.steps)
        if not made.carried and not (made.sliced and calls):
            return None  # independent iterations without calls are not worth a loop
        return self._written(made, steps[repeat.end :])

    def _written(self, made: Round, rest: list[Step]) -> tuple[list[Step], list[Step]]:
        """Return the loop with its auxiliary steps, and the steps after it, rewritten to read its results."""
        before: list[Step] = list(made.before)
        reverse = all(slices.backwards for slices in made.sliced) and bool(made.sliced) and not made.numbers
        sliced = [_sliced(slices, inside, made.count, reverse, before) for slices, inside in made.sliced.items()]
        for numbers, inside in made.numbers.items():
            sliced.append(_numbers(numbers.start, numbers.step, inside, made.count, before))
        leaving = Leaving(made, reverse)
        rest = leaving.followed(rest)
        self.written = {path: leaving.left(value) for path, value in self.written.items()}
        carried = [
            Carried(first, inside, made.inner[after], leaving.last(after))
            for (first, after), inside in made.carried.items()
        ]
        place = next((step.place for step in made.steps if isinstance(step, Operation | LayerCall | ScopeEnter)), None)
        ends = {each.next for each in carried} | {stacked.inside for stacked in leaving.stacked}
        body = without_dead_code(made.steps, ends)
        stateful = any(is_stateful(step, self.training) for step in body)
        if not stateful:  # its iterations share one random state, so draws are not counted
            body = [step for step in body if not is_unread_draw(step)]
        known = rounds_said([getattr(step, "numbers", {}) for step in made.steps], made.count)
        length = made.count if known is None else with_origin(made.count, known.origin)
        loop = Loop(
            length, reverse, stateful, tuple(carried), tuple(sliced), tuple(leaving.stacked), tuple(body), place
        )
        return [*before, loop, *leaving.behind], rest


def _rounds(steps: list[Step], repeat: Repeat) -> list[list[Step | None]]:
    rounds: list[list[Step | None]] = []
    for number in range(repeat.rounds):
        start = repeat.start + number * repeat.period
        rounds.append(list(steps[start : start + repeat.period]))
    if repeat.tail:
        last: list[Step | None] = [None] * repeat.period
        for number, place in enumerate(repeat.tail):
            last[place] = steps[repeat.end - len(repeat.tail) + number]
        rounds.append(last)
    return rounds


def _sliced(slices: Any, inside: Value, count: int, reverse: bool, before: list[Step]) -> Sliced:
    """Return a sliced tensor of the loop; a part or a reversal of a tensor is computed before the loop."""
    whole, axis = slices.whole, slices.axis
    start = slices.start - count + 1 if slices.backwards else slices.start
    shape = (*whole.shape[:axis], count, *whole.shape[axis + 1 :])
    if shape != whole.shape:
        part = Value(f"{inside.name}_part_of", shape, whole.dtype)
        arguments = {"self": whole, "dim": axis, "start": start, "end": start + count, "step": 1}
        before.append(Operation("aten.slice.Tensor", arguments, (part,), False, None))
        whole = part
    if slices.backwards and not reverse:
        flipped = Value(f"{inside.name}_flipped", shape, whole.dtype)
        before.append(Operation("aten.flip.default", {"self": whole, "dims": [axis]}, (flipped,), False, None))
        whole = flipped
    return Sliced(whole, axis, inside)


def _numbers(start: int, step: int, inside: Value, count: int, before: list[Step]) -> Sliced:
    whole = Value(f"{inside.name}_all", (count,), inside.dtype)
    arguments = {"start": start, "end": start + step * count, "step": step, "dtype": None}
    operator = "aten.arange.start_step"
    if step == 1:
        operator = "aten.arange.start" if start else "aten.arange.default"
        arguments = {name: value for name, value in arguments.items() if name != "step" and (value or name != "start")}
    before.append(Operation(operator, arguments, (whole,), False, None))
    return Sliced(whole, 0, inside)


def _is_of_sizes(step: Step) -> bool:
    """Whether a step is arithmetic of lengths, which is emitted where a length is used."""
    return (
        isinstance(step, Operation)
        and all(value.shape is None for value in step.results)
        and (step.operator.startswith("aten.sym_") or not step.operator.startswith("aten."))
    )
