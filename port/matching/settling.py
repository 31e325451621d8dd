"""Settling: gives each node the twin with the same input."""

from __future__ import annotations

from port.matching.activations import Activations
from port.matching.options import Node
from port.matching.running import StateRuns
from port.matching.state import Decision, State


def settled(runs: StateRuns, state: State, frozen: frozenset[Node] = frozenset()) -> State:
    """Return the state in which each observed node has a twin with the same input, if there is one.

    Args:
        runs: runs of states.
        state: the state to begin with.
        frozen: nodes that are not changed.
    """
    for _ in range(len(runs.problem.flax)):
        if runs.are_spent:
            return state
        shown = runs(state)
        made = {} if shown.agree else _moved(runs, state, shown.activations, frozen)
        if not made:
            return state
        state = state.decided(made)
    return state


def _moved(runs: StateRuns, state: State, activations: Activations, frozen: frozenset[Node]) -> dict[Node, Decision]:
    """Nodes that get another twin: two that exchange theirs, or one that had none."""
    made: dict[Node, Decision] = {}
    held = {decision.option.torch: flax for flax, decision in state.decisions.items()}
    touched: set[Node] = set(frozen)
    for flax in runs.problem.flax:
        flax_input = activations.input(flax[0])
        own = state.decisions.get(flax)
        if flax in touched or flax_input is None or (own and runs.has_same_input(flax, own.option, activations)):
            continue
        if own is not None and own.by == "your rule":
            continue
        twins = [
            torch
            for torch in runs.problem.for_flax(flax)
            if runs.same(runs.torch.input(torch[0]), flax_input) and held.get(torch) not in touched
        ]
        fair = [torch for torch in twins if _may_leave(runs, held.get(torch), activations, state)]
        if not fair:
            continue
        torch, holder = fair[0], held.get(fair[0])
        taken = Decision(runs.problem.between(torch, flax)[0], "activations")
        touched.add(flax)
        if holder is None:
            made[flax] = taken
            continue
        touched.add(holder)
        if own is not None and (back := runs.problem.between(own.option.torch, holder)):
            made |= {flax: taken, holder: Decision(back[0], "activations")}
    return made


def _may_leave(runs: StateRuns, holder: Node | None, activations: Activations, state: State) -> bool:
    """Whether the node that has a twin has another input than the twin, and so may give it up."""
    if holder is None:
        return True
    made = state.decisions[holder]
    return made.by != "your rule" and not runs.has_same_input(holder, made.option, activations)
