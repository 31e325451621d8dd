"""Layout assignment: inputs, parameters, permutations and what loops carry get the order that saves transposes.

An analysis: the rules of lowering say of each step which layout its results have and what it needs transposed; what is
needed in another layout asks the source whose layout it follows. A source is given the layout that it is asked for if
that costs less: first, fewer operators that cannot be said; then, fewer elements to move, in both modes together and at
the example's lengths; then, fewer transposes. Each decision costs strictly less than what was before it, so that there
is an end; then no source that is asked for another layout would cost less in it.

At last, calls of one class are given their arguments in one order where that takes no more transposes, and moves no
more than twice the arguments that come in another: a class for each order would have to be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from port.translation.ir.graph import Graph, Value
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.layout_decisions import LayoutDecision, Layouts
from port.translation.ir.source_location import SourceLocation
from port.translation.lowering.trial import Ask, State, Trial, Went
from port.translation.lowering.unlike_calls import unlike, unlike_results

Cost = tuple[int, int, int]
"""Operators that cannot be said, elements moved, and transposes."""


def analyse(graphs: Mapping[bool, Graph], root: Any, example: Mapping[str, int] | None = None) -> Layouts:
    """Find a layout for everything that is free to have one.

    Args:
        graphs: of `port.translation.frontend.export`, by whether they are of training.
        root: the torch module that was captured.
        example: the free lengths in the example inputs, by their names.
    """
    search = _Search(graphs, root, example or {})
    while search.sweep():
        pass
    while search.unify():
        pass
    _, elements, transposes = search.cost
    return Layouts(dict(search.chosen), tuple(search.decisions), transposes, elements)


@dataclass
class _Before:
    """What a move has changed, as it was."""

    chosen: dict[str, Layout]
    states: dict[tuple[int, Value], State] = field(default_factory=dict)
    went: dict[tuple[int, int], Went] = field(default_factory=dict)


class _Search:
    """Layouts, what they cost, and moves from some to others that cost less."""

    def __init__(self, graphs: Mapping[bool, Graph], root: Any, example: Mapping[str, int]) -> None:
        self.chosen: dict[str, Layout] = {}
        self.trials = [Trial(graph, root, self.chosen, training, example) for training, graph in graphs.items()]
        self.decisions: list[LayoutDecision] = []
        self.named: dict[str, list[tuple[int, Value]]] = {}
        self.makers: list[dict[Value, int]] = []
        self.asked: Counter[tuple[int, Value, Layout, int]] = Counter()
        self.refused, self.elements, self.transposes = 0, 0, 0
        for which, trial in enumerate(self.trials):
            self.makers.append({value: number for number, made in enumerate(trial.makes) for value in made})
            for value in [*trial.graph.inputs, *trial.graph.held, *self.makers[which]]:
                self.named.setdefault(value.name, []).append((which, value))
            for number, went in enumerate(trial.went):
                self._count(which, number, went, 1)

    @property
    def cost(self) -> Cost:
        return self.refused, self.elements, self.transposes

    def sweep(self) -> bool:
        """Go through all that is asked for, once; whether anything was decided."""
        decided = False
        for which, trial in enumerate(self.trials):
            for number in range(len(trial.steps)):
                for ask, place in self._asks(which, number):
                    for value, layout in trial.reached_by(ask):
                        if self.chosen.get(value.name) != layout and self._decide(value, layout, place):
                            decided = True
                            break
        return decided

    def unify(self) -> bool:
        """Give sources the layouts that calls of one class want to have in common; whether anything was decided."""
        decided = False
        for trial in self.trials:
            for asks in unlike_results(trial, either=True):
                # That a method stays one, whatever its callers do with what it gives, is worth a transpose of each.
                sources = [next(trial.reached_by(ask), None) for ask in asks]
                decided |= self._unified([each for each in sources if each is not None], allowed=len(asks))
            for ask in unlike(trial, either=True):
                decided |= any(self._unified([source]) for source in trial.reached_by(ask))
        return decided

    def _unified(self, asks: list[Ask], allowed: int = 0) -> bool:
        """Give sources the layouts that they are asked for, if calls of one class are more alike then.

        Args:
            asks: sources, and their layouts.
            allowed: how many transposes it may cost.
        """
        before, apart = self.cost, self._unlike()
        undo = [self._move(source.name, wanted, along=False) for source, wanted in asks]
        is_dearer = self.cost[0] > before[0] or self.cost[2] > before[2] + allowed
        less = 2 * (apart - self._unlike()) - (self.cost[1] - before[1])
        if not is_dearer and (less > 0 or (less == 0 and self.cost[2] < before[2])):
            for (source, wanted), chosen in zip(asks, undo, strict=True):
                self._decided(source, wanted, None, before, chosen)
            return True
        for each in reversed(undo):
            self._undo(each)
        return False

    def _unlike(self) -> int:
        """How many elements the arrays have that come in another order than in other calls of their class."""
        found = 0
        for trial in self.trials:
            asks = [*unlike(trial), *(ask for several in unlike_results(trial) for ask in several)]
            found += sum(trial.elements(value) for value, _ in asks)
        return found

    def _asks(self, which: int, number: int) -> Iterator[tuple[Ask, SourceLocation | None]]:
        """What a step asks for and still has not, while decisions are taken."""
        went = self.trials[which].went[number]
        for ask in [*went.asks, *went.suggestions]:
            now = self.trials[which].went[number]
            if ask in now.asks or ask in now.suggestions:
                yield ask, now.asks.get(ask)

    def _decide(self, value: Value, layout: Layout, place: SourceLocation | None) -> bool:
        """Give a source a layout if that costs less; alone, or with the sources that are then asked for another."""
        before = self.cost
        for along in (False, True):
            undo = self._move(value.name, layout, along)
            if self.cost < before:
                self._decided(value, layout, place, before, undo)
                return True
            self._undo(undo)
        return False

    def _decided(self, value: Value, layout: Layout, place: SourceLocation | None, before: Cost, undo: _Before) -> None:
        others = [name for name, now in self.chosen.items() if undo.chosen.get(name) != now and name != value.name]
        saves, elements = before[2] - self.cost[2], before[1] - self.cost[1]
        self.decisions.append(LayoutDecision(value, layout, place, saves, elements))
        self.decisions += [
            LayoutDecision(self.named[name][0][1], self.chosen[name], None, along_with=value) for name in others
        ]

    def _move(self, name: str, layout: Layout, along: bool) -> _Before:
        """Give a source a layout; ``along`` gives those as well what they ask for that are asked because of it."""
        before = _Before(dict(self.chosen))
        waiting, moved = [(name, layout)], set()
        while waiting:
            name, layout = waiting.pop(0)
            if name in moved:
                continue
            moved.add(name)
            self.chosen[name] = layout
            new = self._spread(name, before)
            if along:
                waiting += new
        return before

    def _spread(self, name: str, before: _Before) -> list[tuple[str, Layout]]:
        """Go through the steps again that see a source's layout; what sources are newly asked for."""
        new: list[tuple[str, Layout]] = []
        for which, value in self.named[name]:
            trial, maker = self.trials[which], self.makers[which].get(value)
            waiting: list[int] = [] if maker is None else [maker]
            if maker is None:
                before.states.setdefault((which, value), trial.state(value))
                trial.layouts[value] = trial.given(value) or torchs(value.rank)
                waiting = sorted(trial.readers.get(value, ()))
            done = -1
            while waiting:
                number = heappop(waiting)
                if number == done:
                    continue
                done = number
                states = {made: trial.state(made) for made in trial.makes[number]}
                sources = {made: trial.source_of(made) for made in states}
                for made, state in states.items():
                    before.states.setdefault((which, made), state)
                old = trial.went[number]
                before.went.setdefault((which, number), old)
                self._count(which, number, old, -1)
                went = trial.went[number] = trial.go(number)
                self._count(which, number, went, 1)
                for ask in went.asks.keys() - old.asks.keys():
                    new += [(source.name, layout) for source, layout in trial.reached_by(ask)][:1]
                for made, state in states.items():
                    if trial.state(made)[0] != state[0] or trial.source_of(made) is not sources[made]:
                        for reader in trial.readers.get(made, ()):
                            if reader > number:
                                heappush(waiting, reader)
        return new

    def _undo(self, before: _Before) -> None:
        self.chosen.clear()
        self.chosen.update(before.chosen)
        for (which, number), went in before.went.items():
            self._count(which, number, self.trials[which].went[number], -1)
            self.trials[which].went[number] = went
            self._count(which, number, went, 1)
        for (which, value), state in before.states.items():
            self.trials[which].restore(value, state)

    def _count(self, which: int, number: int, went: Went, sign: int) -> None:
        """Add what a step needs to the cost, or take it away; what several need in one layout is transposed once."""
        trial, weight = self.trials[which], self.trials[which].weight(number)
        self.refused += sign * went.refused
        self.elements += sign * weight * sum(went.moved.values())
        for value, layout in went.asks:
            key = (which, value, layout, number if weight > 1 else -1)
            self.asked[key] += sign
            if self.asked[key] == (sign > 0):  # the first that needs it, or the last that did
                self.transposes += sign
                self.elements += sign * weight * (0 if (value, layout) in went.turned else trial.elements(value))
