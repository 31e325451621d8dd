"""Layout assignment: choose layouts for inputs, parameters, permutations and loop carries that save transposes.

A dry run of the lowering rules finds, for each step, the layouts of its results and the operands that it needs in
another layout. Such a need is a request to the source whose layout the operand follows. A request is granted if it
lowers the cost, which is compared in this order: unsupported operators, elements moved (both modes together, at the
example's lengths), transposes. Every decision strictly lowers the cost, so the search ends, at a local optimum with
respect to single requests.

At the end, calls of one class get their arguments in one layout, if that takes no more transposes and moves at most
twice the elements of the arguments that differ: otherwise each layout would need its own class.
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
from port.translation.lowering.trial import Ask, State, StepNeeds, Trial
from port.translation.lowering.unlike_calls import unlike, unlike_results

Cost = tuple[int, int, int]
"""Unsupported operators, elements moved, transposes."""


def analyse(graphs: Mapping[bool, Graph], root: Any, example: Mapping[str, int] | None = None) -> Layouts:
    """Choose a layout for every value whose layout is free.

    Args:
        graphs: the graphs from `port.translation.frontend.export`, keyed by whether the mode is training.
        root: the torch module that was captured.
        example: the free lengths in the example inputs, by name.
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
    """The state before a move, to undo it."""

    chosen: dict[str, Layout]
    states: dict[tuple[int, Value], State] = field(default_factory=dict)
    needs: dict[tuple[int, int], StepNeeds] = field(default_factory=dict)


class _Search:
    """The current layouts, their cost, and the moves that lower it."""

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
            for number, needs in enumerate(trial.needs):
                self._count(which, number, needs, 1)

    @property
    def cost(self) -> Cost:
        return self.refused, self.elements, self.transposes

    def sweep(self) -> bool:
        """Try every request once; return whether any was granted."""
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
        """Try to give calls of one class common layouts; return whether anything changed."""
        decided = False
        for trial in self.trials:
            for asks in unlike_results(trial, either=True):
                # One method for all callers is worth one transpose per caller.
                sources = [next(trial.reached_by(ask), None) for ask in asks]
                decided |= self._try_unify([each for each in sources if each is not None], allowed=len(asks))
            for ask in unlike(trial, either=True):
                decided |= any(self._try_unify([source]) for source in trial.reached_by(ask))
        return decided

    def _try_unify(self, asks: list[Ask], allowed: int = 0) -> bool:
        """Grant requests together if calls of one class then differ less; return whether they were granted.

        Args:
            asks: sources, and the layouts requested of them.
            allowed: how many transposes this may add.
        """
        before, apart = self.cost, self._unlike()
        undo = [self._move(source.name, wanted, along=False) for source, wanted in asks]
        is_dearer = self.cost[0] > before[0] or self.cost[2] > before[2] + allowed
        less = 2 * (apart - self._unlike()) - (self.cost[1] - before[1])
        if not is_dearer and (less > 0 or (less == 0 and self.cost[2] < before[2])):
            for (source, wanted), chosen in zip(asks, undo, strict=True):
                self._record(source, wanted, None, before, chosen)
            return True
        for each in reversed(undo):
            self._undo(each)
        return False

    def _unlike(self) -> int:
        """Count the elements of arrays whose layout differs from that in other calls of their class."""
        found = 0
        for trial in self.trials:
            asks = [*unlike(trial), *(ask for several in unlike_results(trial) for ask in several)]
            found += sum(trial.elements(value) for value, _ in asks)
        return found

    def _asks(self, which: int, number: int) -> Iterator[tuple[Ask, SourceLocation | None]]:
        """Yield a step's requests that are still open, while decisions are taken."""
        needs = self.trials[which].needs[number]
        for ask in [*needs.asks, *needs.suggestions]:
            now = self.trials[which].needs[number]
            if ask in now.asks or ask in now.suggestions:
                yield ask, now.asks.get(ask)

    def _decide(self, value: Value, layout: Layout, place: SourceLocation | None) -> bool:
        """Grant a request if that lowers the cost, alone or together with the requests that follow from it."""
        before = self.cost
        for along in (False, True):
            undo = self._move(value.name, layout, along)
            if self.cost < before:
                self._record(value, layout, place, before, undo)
                return True
            self._undo(undo)
        return False

    def _record(self, value: Value, layout: Layout, place: SourceLocation | None, before: Cost, undo: _Before) -> None:
        others = [name for name, now in self.chosen.items() if undo.chosen.get(name) != now and name != value.name]
        saves, elements = before[2] - self.cost[2], before[1] - self.cost[1]
        self.decisions.append(LayoutDecision(value, layout, place, saves, elements))
        self.decisions += [
            LayoutDecision(self.named[name][0][1], self.chosen[name], None, along_with=value) for name in others
        ]

    def _move(self, name: str, layout: Layout, along: bool) -> _Before:
        """Set a source's layout; with ``along``, also grant the requests that follow from it."""
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
        """Rerun the steps that depend on a source's layout; return the new requests to other sources."""
        new: list[tuple[str, Layout]] = []
        for which, value in self.named[name]:
            trial, maker = self.trials[which], self.makers[which].get(value)
            waiting: list[int] = [] if maker is None else [maker]
            if maker is None:
                before.states.setdefault((which, value), trial.state(value))
                trial.layouts[value] = trial.chosen_layout(value) or torchs(value.rank)
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
                old = trial.needs[number]
                before.needs.setdefault((which, number), old)
                self._count(which, number, old, -1)
                needs = trial.needs[number] = trial.rerun(number)
                self._count(which, number, needs, 1)
                for ask in needs.asks.keys() - old.asks.keys():
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
        for (which, number), needs in before.needs.items():
            self._count(which, number, self.trials[which].needs[number], -1)
            self.trials[which].needs[number] = needs
            self._count(which, number, needs, 1)
        for (which, value), state in before.states.items():
            self.trials[which].restore(value, state)

    def _count(self, which: int, number: int, needs: StepNeeds, sign: int) -> None:
        """Add a step's needs to the cost, or subtract them; an array needed twice in one layout is transposed once."""
        trial, weight = self.trials[which], self.trials[which].weight(number)
        self.refused += sign * needs.refused
        self.elements += sign * weight * sum(needs.moved.values())
        for value, layout in needs.asks:
            key = (which, value, layout, number if weight > 1 else -1)
            self.asked[key] += sign
            if self.asked[key] == (sign > 0):  # the first step that needs it, or the last one
                self.transposes += sign
                self.elements += sign * weight * (0 if (value, layout) in needs.turned else trial.elements(value))
