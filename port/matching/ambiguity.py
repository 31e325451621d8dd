"""Ambiguity: other states, or other moves, that agree as well, so that nothing decides between them."""

from __future__ import annotations

from port.matching.names import told_apart
from port.matching.options import Node, Option
from port.matching.rivals import permuted, rivals
from port.matching.running import Shown, StateRuns
from port.matching.settling import settled
from port.matching.state import Decision, State

CLEARLY = 30.0
"""How many times farther from torch's outputs a state must be to count as worse, where float32 lets both agree."""

EXACTLY = 1e-8
"""Differences of the outputs up to this one decide nothing."""


def undecided(runs: StateRuns, state: State) -> dict[Node, list[Node]]:
    """Find nodes that nothing distinguishes: another state agrees as well, or they cannot be observed.

    Names, and the user's rules, do decide, so those nodes are not tested again. If the two models do not agree anyway,
    a module decides as well: its own parameters belong to the module whose calls are the twins of the calls inside it.
    And so do the names of two parameters that are held by one module, or by none that was observed.

    Returns:
        Flax's node → torch's nodes that it could be.
    """
    shown = runs(state)
    found: dict[Node, list[Node]] = {}
    asked: set[frozenset[Node]] = set()
    for flax in runs.problem.flax:
        if flax not in state.decisions or state.decisions[flax].by in ("name", "your rule", "kind and shape"):
            continue
        for other in rivals(runs, state, flax):
            pair = frozenset((flax, other))
            if other == flax or pair in asked or state.decisions[other].by in ("name", "your rule") or runs.are_spent:
                continue
            asked.add(pair)
            if not shown.agree and (are_at_home(state, flax, other) or are_distinguished_by_names(state, flax, other)):
                continue
            for node, twins in _as_good(runs, state, shown, (flax, other)).items():
                known = found.setdefault(node, [])
                known += [twin for twin in twins if twin not in known]
    return found


def are_at_home(state: State, *nodes: Node) -> bool:
    """Whether each of these parameters is held by a module of its own, and its twin by that module's twin.

    The calls inside a module determine its twin: all have their twins inside one module, which has no others.
    """
    holders = [(state.decisions[flax].option.torch[0].path, flax[0].path) for flax in nodes]
    return len(set(holders)) == len(nodes) and all(_are_twins(state, *pair) for pair in holders)


def are_distinguished_by_names(state: State, *nodes: Node) -> bool:
    """Whether the names of these parameters of user modules distinguish them, in agreement with the decision."""
    twins = [state.decisions[flax].option.torch for flax in nodes]
    are_hidden = all(flax[0].seen == (None, None) for flax in nodes)
    return are_hidden and told_apart([n[0].place for n in twins], [n[0].place for n in nodes]) == (0, 1)


def _are_twins(state: State, theirs: str, ours: str) -> bool:
    called = [
        (_is_inside(made.option.torch[0].path, theirs), _is_inside(flax[0].path, ours))
        for flax, made in state.decisions.items()
        if flax[0].seen != (None, None)
    ]
    return bool(theirs and ours) and (True, True) in called and not {(True, False), (False, True)} & {*called}


def _is_inside(path: str, module: str) -> bool:
    return path.startswith(f"{module}.")


def _as_good(runs: StateRuns, state: State, shown: Shown, pair: tuple[Node, Node]) -> dict[Node, list[Node]]:
    """What the two could be, and what depends on them, if exchanging them makes no visible difference."""
    for other in permuted(runs, state, pair):
        changed = settled(runs, other, frozenset(pair))
        if _is_as_good(runs(changed), shown):
            return {
                flax: [made.option.torch, changed.decisions[flax].option.torch]
                for flax, made in state.decisions.items()
                if flax in changed.decisions and changed.decisions[flax].option.torch != made.option.torch
            }
    return {}


def _is_as_good(changed: Shown, shown: Shown) -> bool:
    if changed.agree and shown.agree and changed.apart > max(CLEARLY * shown.apart, EXACTLY):
        return False
    return changed.score >= shown.score


def other_ways(runs: StateRuns, state: State) -> dict[Node, list[Option]]:
    """Find nodes whose weights could be moved in another way with the same result: nothing decides which is right."""
    shown = runs(state)
    found: dict[Node, list[Option]] = {}
    for flax, made in state.decisions.items():
        for option in runs.problem.between(made.option.torch, flax):
            if option.note == made.option.note or runs.are_spent or made.by == "your rule":
                continue
            changed = state.decided({flax: Decision(option, made.by)})
            if shown.agree and _is_as_good(runs(changed), shown):
                found.setdefault(flax, [made.option]).append(option)
    return found
