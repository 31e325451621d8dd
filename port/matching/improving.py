"""Improving: tries other moves, and other twins with the same input, where more of the model then agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from port.matching.activations import Activations
from port.matching.homes import homed
from port.matching.options import Node, Option
from port.matching.rivals import permuted, rivals
from port.matching.running import Shown, StateRuns
from port.matching.settling import settled
from port.matching.state import Decision, State

NEAR = 12
"""How many nodes before the first that differs are suspected."""


def improved(runs: StateRuns, state: State) -> State:
    """Return the state with the alternatives that make more of the model agree."""
    state = settled(runs, state)
    if not runs(state).agree and (at_home := homed(runs.problem, state)) is not state:
        at_home = settled(runs, at_home)
        state = at_home if runs(at_home).score >= runs(state).score else state
    while not runs.are_spent and not (shown := runs(state)).agree:
        for other in _alternatives(runs, state, shown):
            changed = settled(runs, other)
            if _is_better(runs, changed, state):
                state = changed
                break
            if runs.are_spent:
                return state
        else:
            return state
    return state


def _is_better(runs: StateRuns, changed: State, state: State) -> bool:
    """Whether more of the model agrees; a name's decision yields only to a state in which all of it does."""
    shown = runs(changed)
    renamed = any(
        made.by == "name" and changed.torch(flax) != made.option.torch for flax, made in state.decisions.items()
    )
    return shown.agree if renamed else shown.score > runs(state).score


def _alternatives(runs: StateRuns, state: State, shown: Shown) -> Iterator[State]:
    """Other states; first those that change what comes right before the first node that differs."""
    suspects = _suspects(runs, state, shown.activations)
    for flax in suspects:
        made = state.decisions[flax]
        for option in runs.problem.between(made.option.torch, flax):
            if option.note != made.option.note:
                yield state.decided(_everywhere(runs, state, made.option, option))
                yield state.decided({flax: Decision(option, "activations")})
    for flax in suspects:
        if group := rivals(runs, state, flax):
            yield from permuted(runs, state, group)


def _everywhere(runs: StateRuns, state: State, old: Option, new: Option) -> dict[Node, Decision]:
    """Apply the same change to all nodes that are alike: the layers of a model are built in one way."""
    made = {}
    for flax, decision in state.decisions.items():
        if decision.option.note == old.note and _kind(flax) == _kind(old.flax):
            for option in runs.problem.between(decision.option.torch, flax):
                if option.note == new.note:
                    made[flax] = Decision(option, "activations")
    return made


def _kind(node: Node) -> tuple[Any, ...]:
    return tuple((unit.kind, tuple(unit.shapes.items())) for unit in node)


def _suspects(runs: StateRuns, state: State, activations: Activations) -> list[Node]:
    """Nodes before the first whose input differs from its twin's, the nearest first; then those not observed."""
    decided = [flax for flax in runs.problem.flax if flax in state.decisions]
    seen = [flax for flax in decided if activations.input(flax[0]) is not None]
    seen.sort(key=lambda flax: activations.place(flax[0]))
    right = [runs.has_same_input(flax, state.decisions[flax].option, activations) for flax in seen]
    first = right.index(False) if False in right else len(seen)
    before = [flax for flax in reversed(seen[:first]) if not _gives_the_same(runs, flax, state, activations)]
    return [*before[:NEAR], *(flax for flax in decided if flax not in seen)]


def _gives_the_same(runs: StateRuns, flax: Node, state: State, activations: Activations) -> bool:
    torch = state.decisions[flax].option.torch
    is_single = len(flax) == len(torch) == 1
    if not is_single or rivals(runs, state, flax):
        return False
    return runs.same(runs.torch.output(torch[0]), activations.output(flax[0]))
