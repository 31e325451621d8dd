"""Homes: the calls inside a module determine its twin, and so the twins of the parameters that it holds itself."""

from __future__ import annotations

from typing import Literal

from port.matching.names import told_apart
from port.matching.options import Node
from port.matching.problem import Problem
from port.matching.state import By, Decision, State

Home = tuple[str, str]
"""A torch module and its Flax twin."""
_Side = Literal[0, 1]


def homes(state: State) -> list[Home]:
    """Find the modules whose inner calls are twins according to the decisions so far; inner ones first.

    If several contain the same layers on one side, the outermost.
    """
    inside: tuple[dict[str, set[Node]], dict[str, set[Node]]] = ({}, {})
    for flax, made in state.decisions.items():
        if flax[0].seen != (None, None):
            for held, node in zip(inside, (made.option.torch, flax), strict=True):
                for module in _around(node):
                    held.setdefault(module, set()).add(flax)
    theirs, ours = ({frozenset(nodes): module for module, nodes in _inner_first(held)} for held in inside)
    return [(theirs[nodes], ours[nodes]) for nodes in sorted(theirs.keys() & ours.keys(), key=len)]


def _inner_first(held: dict[str, set[Node]]) -> list[tuple[str, set[Node]]]:
    return sorted(held.items(), key=lambda item: -len(item[0]))


def _around(node: Node) -> list[str]:
    """The modules around a layer, or around a parameter that a user's module holds."""
    path = f"{node[0].path}." if node[0].family == "own" else node[0].path
    parts = path.split(".")[:-1]
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def home_of(node: Node, known: list[Home], side: _Side) -> Home | None:
    """The innermost home that contains a node; None if there is none.

    Args:
        node: a node of one side.
        known: the homes, inner ones first.
        side: 0 for torch, 1 for Flax.
    """
    around = set(_around(node))
    return next((home for home in known if home[side] in around), None)


def homed(problem: Problem, state: State) -> State:
    """Give parameters that no call shows twins in the twin of the module that holds them.

    What only the order decided is decided again: inside one module, by names, and otherwise by their order in it.
    Returns the state unchanged where these cannot be each other's twins.
    """
    hidden = [flax for flax in problem.flax if flax in state.decisions and _is_open(state, flax)]
    twins = {state.decisions[flax].option.torch for flax in hidden}
    left = [torch for torch in problem.torch if torch in twins]
    known = homes(state)
    made: dict[Node, Decision] = {}
    for home in known:
        ours = [flax for flax in hidden if home_of(flax, known, 1) == home]
        theirs = [torch for torch in left if home_of(torch, known, 0) == home]
        if ours and len(ours) == len(theirs):
            made |= _paired(problem, theirs, ours) or {}
    used = {decision.option.torch for decision in made.values()}
    # Those whose twin was assigned elsewhere get what is left.
    rest = [flax for flax in hidden if flax not in made]
    kept = {twin for flax in rest if (twin := state.decisions[flax].option.torch) not in used}
    lost = [flax for flax in rest if state.decisions[flax].option.torch not in kept]
    others = _paired(problem, [torch for torch in left if torch not in used | kept], lost, named=False)
    return state if others is None or not made else state.decided({**made, **others})


def _is_open(state: State, flax: Node) -> bool:
    made = state.decisions[flax]
    return made.by == "order" and all(node[0].seen == (None, None) for node in (flax, made.option.torch))


def _paired(
    problem: Problem, theirs: list[Node], ours: list[Node], *, named: bool = True
) -> dict[Node, Decision] | None:
    """Pair equal numbers of torch's and Flax's nodes, by names or by order; None if two of them cannot be twins."""
    places = told_apart([node[0].place for node in theirs], [node[0].place for node in ours]) if named else None
    by: By = "order" if places is None else "name"
    made: dict[Node, Decision] = {}
    for number, flax in enumerate(ours):
        ways = problem.between(theirs[number if places is None else places[number]], flax)
        if not ways:
            return None
        made[flax] = Decision(ways[0], by)
    return made
