"""Settling: each node goes to the twin that is given what it is given."""

from __future__ import annotations

from port.matching.activations import Activations
from port.matching.options import Node
from port.matching.running import StateRuns
from port.matching.state import Decision, State


def settled(runs: StateRuns, state: State, frozen: frozenset[Node] = frozenset()) -> State:
    """The state in which each node that is seen has a twin that is given the same, where there is one.

    Args:
        runs: of states.
        state: to begin with.
        frozen: nodes that stay as they are.
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
    """Nodes to be given another twin: two that change places, or one that had none."""
    made: dict[Node, Decision] = {}
    held = {decision.option.torch: flax for flax, decision in state.decisions.items()}
    touched: set[Node] = set(frozen)
    for flax in runs.problem.flax:
        given = activations.input(flax[0])
        own = state.decisions.get(flax)
        if flax in touched or given is None or (own and runs.given_the_same(flax, own.option, activations)):
            continue
        if own is not None and own.by == "your rule":
            continue
        twins = [
            torch
            for torch in runs.problem.for_flax(flax)
            if runs.same(runs.torch.input(torch[0]), given) and held.get(torch) not in touched
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
    """Whether the node that holds a twin is not given what the twin is given, and so may give it away."""
    if holder is None:
        return True
    made = state.decisions[holder]
    return made.by != "your rule" and not runs.given_the_same(holder, made.option, activations)
