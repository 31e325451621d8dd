"""Solving: torch's weights are put through what was proposed, and each layer's activations say whether it is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from port.mapping.complain import Complaints
from port.mapping.entry import TORCH_ONLY, gather
from port.mapping.grouping import entries_of
from port.matching.activations import Activations, FlaxRuns, Print, alike
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.state import Decision, State
from port.parity.calls import Arrays, is_floating
from port.parity.distance import difference

MOST_RUNS = 400
"""How many hypotheses are tried at most."""

NEAR = 12
"""How many nodes before the first that differs are suspected."""


@dataclass(frozen=True)
class Shown:
    """What a run shows of a state.

    Attributes:
        activations: of Flax's side.
        agree: whether the model's outputs are torch's.
        score: how many nodes are given what their twins are given; all of them and more where the outputs agree.
    """

    activations: Activations
    agree: bool
    score: int


class Solver:
    """Tries states of a problem.

    Args:
        problem: the nodes and their options.
        torch: torch's activations.
        runs: of Flax's side.
        own: what Flax's side shows with its own variables, and these.
        weights: torch's state dict.
        guides: of both sides.
        outputs_agree: whether Flax's outputs are torch's.
        tolerance: of a fingerprint.
    """

    def __init__(
        self,
        problem: Problem,
        torch: Activations,
        runs: FlaxRuns,
        own: tuple[Activations, dict[str, Any]],
        weights: Arrays,
        guides: tuple[Any, Any],
        outputs_agree: Callable[[Arrays], bool],
        tolerance: float,
    ) -> None:
        self.problem, self.torch = problem, torch
        self.own, self._own = own
        self._runs, self._weights, self._guides = runs, weights, guides
        self._outputs_agree, self._tolerance = outputs_agree, tolerance
        self._carried: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._shown: dict[tuple[tuple[Any, ...], ...], Shown] = {}

    # %% Running a state

    def run(self, state: State) -> Shown:
        """Flax's model with torch's weights where this state puts them."""
        key = tuple(sorted(_key(made.option) for made in state.decisions.values()))
        if key not in self._shown:
            variables = dict(self._own)
            for made in state.decisions.values():
                variables |= self._carry(made.option)
            activations, outputs = self._runs(variables)
            agree = self._outputs_agree(outputs)
            score = sum(self.given_the_same(flax, made.option, activations) for flax, made in state.decisions.items())
            self._shown[key] = Shown(activations, agree, score + (len(self.problem.flax) if agree else 0))
        return self._shown[key]

    @property
    def is_tired(self) -> bool:
        """Whether as many hypotheses were tried as may be."""
        return self._runs.count >= MOST_RUNS

    def _carry(self, option: Option) -> dict[str, Any]:
        import jax.numpy as jnp

        key = _key(option)
        if key not in self._carried:
            torch, flax = self._guides
            made: dict[str, Any] = {}
            for entry in entries_of(list(option.found), torch, flax, Complaints(torch, flax)):
                if entry.collection != TORCH_ONLY:
                    made |= dict(zip(entry.targets, entry(gather(entry, self._weights)), strict=True))
            self._carried[key] = {
                path: jnp.asarray(array, self._own[path].dtype) for path, array in made.items() if path in self._own
            }
        return self._carried[key]

    def given_the_same(self, flax: Node, option: Option, activations: Activations) -> bool:
        """Whether a node of Flax's is given what its twin of torch's is given."""
        return self._same(self.torch.input(option.torch[0]), activations.input(flax[0]))

    def _same(self, one: Print | None, other: Print | None) -> bool:
        return alike(one, other, self._tolerance)

    # %% Settling: each node to the twin that is given what it is given

    def settled(self, state: State, frozen: frozenset[Node] = frozenset()) -> State:
        """The state in which each node that is seen has a twin that is given the same, where there is one."""
        for _ in range(len(self.problem.flax)):
            if self.is_tired:
                return state
            shown = self.run(state)
            made = {} if shown.agree else self._moved(state, shown.activations, frozen)
            if not made:
                return state
            state = state.decided(made)
        return state

    def _moved(self, state: State, activations: Activations, frozen: frozenset[Node]) -> dict[Node, Decision]:
        """Nodes to be given another twin, as two that change places, or as one that had none."""
        made: dict[Node, Decision] = {}
        held = {decision.option.torch: flax for flax, decision in state.decisions.items()}
        touched: set[Node] = set(frozen)
        for flax in self.problem.flax:
            given = activations.input(flax[0])
            own = state.decisions.get(flax)
            if flax in touched or given is None or (own and self.given_the_same(flax, own.option, activations)):
                continue
            if own is not None and own.by == "your rule":
                continue
            twins = [
                torch
                for torch in self.problem.for_flax(flax)
                if self._same(self.torch.input(torch[0]), given) and held.get(torch) not in touched
            ]
            fair = [torch for torch in twins if self._may_leave(held.get(torch), activations, state)]
            if not fair:
                continue
            torch, holder = fair[0], held.get(fair[0])
            made[flax] = Decision(self.problem.between(torch, flax)[0], "activations")
            touched.add(flax)
            if holder is not None:
                touched.add(holder)
                back = self.problem.between(own.option.torch, holder) if own is not None else ()
                if back:
                    made[holder] = Decision(back[0], "activations")
                else:
                    made[holder] = state.decisions[holder]
                    del made[flax]
        return made

    def _may_leave(self, holder: Node | None, activations: Activations, state: State) -> bool:
        """Whether the node that holds a twin is not given what the twin is given, and so may give it away."""
        if holder is None:
            return True
        made = state.decisions[holder]
        return made.by != "your rule" and not self.given_the_same(holder, made.option, activations)

    # %% Improving: other options, and other twins among those that are given the same

    def improved(self, state: State) -> State:
        """The state with those alternatives that make more of the model agree."""
        state = self.settled(state)
        while not self.is_tired and not (shown := self.run(state)).agree:
            for other in self._alternatives(state, shown):
                settled = self.settled(other)
                if self.run(settled).score > shown.score:
                    state = settled
                    break
                if self.is_tired:
                    return state
            else:
                return state
        return state

    def _alternatives(self, state: State, shown: Shown) -> Iterator[State]:
        """Other states, those first that change what comes right before the first node that differs."""
        suspects = self._suspects(state, shown.activations)
        for flax in suspects:
            made = state.decisions[flax]
            for option in self.problem.between(made.option.torch, flax):
                if option.note != made.option.note:
                    yield state.decided(self._everywhere(state, made.option, option))
                    yield state.decided({flax: Decision(option, "activations")})
        for flax in suspects:
            for group in self._rivals(state, flax):
                yield from self._permuted(state, group)

    def _everywhere(self, state: State, old: Option, new: Option) -> dict[Node, Decision]:
        """The same change for all nodes that are alike: the layers of a model are built in one way."""
        made = {}
        for flax, decision in state.decisions.items():
            if decision.option.note == old.note and _kind(flax) == _kind(old.flax):
                for option in self.problem.between(decision.option.torch, flax):
                    if option.note == new.note:
                        made[flax] = Decision(option, "activations")
        return made

    def _suspects(self, state: State, activations: Activations) -> list[Node]:
        """Nodes before the first that is given what its twin is not, the nearest first; then those not seen."""
        decided = [flax for flax in self.problem.flax if flax in state.decisions]
        seen = [flax for flax in decided if activations.input(flax[0]) is not None]
        seen.sort(key=lambda flax: activations.place(flax[0]))
        right = [self.given_the_same(flax, state.decisions[flax].option, activations) for flax in seen]
        first = right.index(False) if False in right else len(seen)
        before = [flax for flax in reversed(seen[:first]) if not self._gives_the_same(flax, state, activations)]
        return [*before[:NEAR], *(flax for flax in decided if flax not in seen)]

    def _gives_the_same(self, flax: Node, state: State, activations: Activations) -> bool:
        torch = state.decisions[flax].option.torch
        alone = len(flax) == len(torch) == 1
        has_rivals = any(len(group) > 1 for group in self._rivals(state, flax))
        return alone and not has_rivals and self._same(self.torch.output(torch[0]), activations.output(flax[0]))

    def _rivals(self, state: State, flax: Node) -> list[tuple[Node, ...]]:
        """Nodes whose twins are given the same as this one's, so that only what follows tells them apart; or whose
        inputs are not seen."""
        torch = state.decisions[flax].option.torch
        own = self.torch.input(torch[0])
        group = [
            other
            for other, made in state.decisions.items()
            if other == flax
            or (
                self.problem.between(torch, other)
                and self.problem.between(made.option.torch, flax)
                and "your rule" not in (made.by, state.decisions[flax].by)
                and (self._is_hidden(flax, other) or self._alike_or_hidden(own, self.torch.input(made.option.torch[0])))
            )
        ]
        return [tuple(group)] if len(group) > 1 else []

    def _is_hidden(self, *nodes: Node) -> bool:
        """Whether the calls of these nodes of Flax's are not seen, as inside a scan."""
        return all(self.own.input(node[0]) is None for node in nodes)

    def _alike_or_hidden(self, one: Print | None, other: Print | None) -> bool:
        return (one is None and other is None) or self._same(one, other)

    def _permuted(self, state: State, group: tuple[Node, ...]) -> Iterator[State]:
        """The group's twins in other orders: all of them for a few, two by two for many."""
        twins = [state.decisions[flax].option.torch for flax in group]
        places = range(len(group))
        orders: Iterable[tuple[int, ...]]
        if len(group) <= 4:
            orders = list(permutations(places))[1:]
        else:
            orders = [_exchanged(len(group), *two) for two in combinations(places, 2)]
        for order in orders:
            made = {
                flax: Decision(ways[0], "activations")
                for flax, place in zip(group, order, strict=True)
                if place != group.index(flax) and (ways := self.problem.between(twins[place], flax))
            }
            if len(made) == sum(place != number for number, place in enumerate(order)):
                yield state.decided(made)

    # %% Ambiguity: other states that agree as well

    def undecided(self, state: State) -> dict[Node, list[Node]]:
        """Nodes that nothing tells apart: another state agrees as well, or nothing can be seen of them.

        Names, and a user's rules, do tell; so they are not asked again.

        Returns:
            Flax's node → torch's nodes that it could be.
        """
        shown = self.run(state)
        found: dict[Node, list[Node]] = {}
        asked: set[frozenset[Node]] = set()
        for flax in self.problem.flax:
            if flax not in state.decisions or state.decisions[flax].by in ("name", "your rule", "kind and shape"):
                continue
            for group in self._rivals(state, flax):
                members = tuple(other for other in group if state.decisions[other].by not in ("name", "your rule"))
                for other in members:
                    pair = frozenset((flax, other))
                    if other == flax or pair in asked or self.is_tired:
                        continue
                    asked.add(pair)
                    for nodes, twins in self._as_good(state, shown, (flax, other)).items():
                        found.setdefault(nodes, []).extend(t for t in twins if t not in found.get(nodes, []))
        return found

    def _as_good(self, state: State, shown: Shown, pair: tuple[Node, Node]) -> dict[Node, list[Node]]:
        """What the two could be, and what depends on them, if exchanging them makes no difference that is seen."""
        for other in self._permuted(state, pair):
            settled = self.settled(other, frozenset(pair))
            if self.run(settled).score >= shown.score:
                return {
                    flax: [made.option.torch, settled.decisions[flax].option.torch]
                    for flax, made in state.decisions.items()
                    if flax in settled.decisions and settled.decisions[flax].option.torch != made.option.torch
                }
        return {}

    def other_ways(self, state: State) -> dict[Node, list[Option]]:
        """Nodes whose weights could be moved in another way with the same result: it cannot be told which is meant."""
        shown = self.run(state)
        found: dict[Node, list[Option]] = {}
        for flax, made in state.decisions.items():
            for option in self.problem.between(made.option.torch, flax):
                if option.note == made.option.note or self.is_tired or made.by == "your rule":
                    continue
                if shown.agree and self.run(state.decided({flax: Decision(option, made.by)})).agree:
                    found.setdefault(flax, [made.option]).append(option)
        return found


def outputs_agree(torch: Arrays, layout: Any, limit: float) -> Callable[[Arrays], bool]:
    """A function of Flax's outputs: whether they are torch's."""
    from port.parity.outputs import match_outputs

    def agree(flax: Arrays) -> bool:
        matched = match_outputs(torch, flax, layout)
        if matched.why:
            return False
        back = matched.in_torchs(flax)
        return all(
            difference(array, back[name]) <= limit if is_floating(array) else bool(np.array_equal(array, back[name]))
            for name, array in torch.items()
        )

    return agree


def _key(option: Option) -> tuple[Any, ...]:
    return (*(unit.label for unit in (*option.torch, *option.flax)), option.note)


def _kind(node: Node) -> tuple[Any, ...]:
    return tuple((unit.kind, tuple(unit.shapes.items())) for unit in node)


def _exchanged(count: int, one: int, other: int) -> tuple[int, ...]:
    order = list(range(count))
    order[one], order[other] = other, one
    return tuple(order)
