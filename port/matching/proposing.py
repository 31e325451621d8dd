"""Proposing: decides nodes by kinds, shapes, names and order, before anything is run with torch's weights."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from port.mapping.names import normal_form
from port.mapping.renaming import Renaming
from port.matching.names import told_apart
from port.matching.options import Node
from port.matching.problem import Problem
from port.matching.state import By, Decision, State
from port.matching.units import Unit

Rivals = dict[Node, int]
"""torch's node → a number that nodes with the same input share."""


def proposed(problem: Problem, renaming: Renaming, rivals: Rivals) -> State:
    """Match every Flax node with its likeliest torch twin; nodes without any are left out.

    Nodes are decided by the user's renaming, by being the only ones of their kind and shape, by equal names, and
    otherwise by the order in which both sides call them; if several are called with the same input their order means
    nothing, and names decide if they can.

    Args:
        problem: the nodes, in the order of their calls.
        renaming: the user's renaming.
        rivals: which torch nodes have the same input.
    """
    state = _same_names(problem, renaming)
    for is_sure in (True, False):
        edges = {
            pair for pair, options in problem.options.items() if not is_sure or options[0].is_sure or _folds(options)
        }
        state = _rounds(problem, edges, state, rivals, renaming)
    return state


def _folds(options: Iterable[object]) -> bool:
    return any("folded in" in getattr(option, "note", "") for option in options)


def _same_names(problem: Problem, renaming: Renaming) -> State:
    """Match nodes of the same name, after the user's renaming or as they are."""
    homes: dict[str, list[Node]] = {}
    for flax in problem.flax:
        for name in {normal_form(_place(flax)), *(normal_form(full) for full in flax[0].names.values())}:
            homes.setdefault(name, []).append(flax)
    made: dict[Node, Decision] = {}
    for torch in problem.torch:
        by: By = "name"
        names = {_place(torch)}
        renamed = {new for full in torch[0].names.values() if (new := renaming(full)) != full}
        if renamed:
            by, names = "your rule", {*renamed, *(new.rpartition(".")[0] for new in renamed)}
        found = {flax for name in names for flax in homes.get(normal_form(name), ()) if problem.between(torch, flax)}
        if len(found) == 1 and (flax := found.pop()) not in made:
            made[flax] = Decision(problem.between(torch, flax)[0], by)
    return State(made)


def _place(node: Node) -> str:
    return node[0].place


def _rounds(problem: Problem, edges: set[tuple[Node, Node]], state: State, rivals: Rivals, renaming: Renaming) -> State:
    """Decide what is left, component by component; one with a single possible twin first."""
    while True:
        used = {made.option.torch for made in state.decisions.values()}
        left = {(torch, flax) for torch, flax in edges if torch not in used and flax not in state.decisions}
        made: dict[Node, Decision] = {}
        for theirs, ours in _components(problem, left):
            made |= _component(problem, theirs, ours, left, rivals, renaming)
        if not made:
            return state
        state = state.decided(made)


def _components(problem: Problem, edges: set[tuple[Node, Node]]) -> list[tuple[list[Node], list[Node]]]:
    """The nodes that are connected by edges, each side in the order of its calls."""
    group: dict[tuple[str, Node], int] = {}
    members: dict[int, set[tuple[str, Node]]] = {}
    for torch, flax in edges:
        ends: tuple[tuple[str, Node], tuple[str, Node]] = (("torch", torch), ("flax", flax))
        joined = {group[end] for end in ends if end in group}
        number = min(joined, default=len(group) + 1)
        while number in members and number not in joined:
            number += 1
        merged: set[tuple[str, Node]] = set(ends).union(*(members.pop(other) for other in joined))
        members[number] = merged
        group |= dict.fromkeys(merged, number)
    found = []
    for nodes in members.values():
        theirs = [node for node in problem.torch if ("torch", node) in nodes]
        ours = [node for node in problem.flax if ("flax", node) in nodes]
        found.append((theirs, ours))
    return found


def _component(
    problem: Problem,
    theirs: list[Node],
    ours: list[Node],
    edges: set[tuple[Node, Node]],
    rivals: Rivals,
    renaming: Renaming,
) -> dict[Node, Decision]:
    if len(theirs) == len(ours) == 1:
        return {ours[0]: Decision(problem.between(theirs[0], ours[0])[0], "kind and shape")}
    single = _single(problem, theirs, ours, edges)
    if single:
        return single
    if len(theirs) != len(ours) or not all((torch, flax) in edges for torch in theirs for flax in ours):
        return _by_names_alone(problem, theirs, ours, edges, renaming)
    order = _in_call_order(theirs, ours, rivals, renaming)
    return {flax: Decision(problem.between(torch, flax)[0], by) for flax, (torch, by) in zip(ours, order, strict=True)}


def _single(
    problem: Problem, theirs: list[Node], ours: list[Node], edges: set[tuple[Node, Node]]
) -> dict[Node, Decision]:
    """Match nodes that have one possible twin, and are the only ones that need it."""
    if len(theirs) != len(ours):
        return {}
    found: dict[Node, Decision] = {}
    for flax in ours:
        twins = [torch for torch in theirs if (torch, flax) in edges]
        if len(twins) == 1 and problem.between(twins[0], flax):
            found[flax] = Decision(problem.between(twins[0], flax)[0], "kind and shape")
    wanted = [made.option.torch for made in found.values()]
    return {flax: made for flax, made in found.items() if wanted.count(made.option.torch) == 1}


def _by_names_alone(
    problem: Problem, theirs: list[Node], ours: list[Node], edges: set[tuple[Node, Node]], renaming: Renaming
) -> dict[Node, Decision]:
    """Match sides with unequal numbers of nodes: only where names identify all of one side."""
    if len(theirs) < len(ours):
        return {}
    if len(theirs) > 6:
        return {}
    answers = []
    for chosen in combinations(theirs, len(ours)):
        if all((torch, flax) in edges for torch in chosen for flax in ours):
            places = told_apart(_paths(chosen, renaming), _paths(ours)) if len(ours) > 1 else None
            if places is not None:
                answers.append([chosen[place] for place in places])
    if len(answers) != 1:
        return {}
    return {
        flax: Decision(problem.between(torch, flax)[0], "name") for flax, torch in zip(ours, answers[0], strict=True)
    }


def _in_call_order(theirs: list[Node], ours: list[Node], rivals: Rivals, renaming: Renaming) -> list[tuple[Node, By]]:
    """Match each Flax node to the torch node with the same position in call order; among rivals, by names."""
    whole = told_apart(_paths(theirs, renaming), _paths(ours))
    if whole is not None and (whole == tuple(range(len(ours))) or not any(_seen(node[0]) for node in theirs)):
        return [(theirs[place], "name") for place in whole]
    answer: list[tuple[Node, By]] = [(torch, "order") for torch in theirs]
    for number in dict.fromkeys(rivals.get(torch, -1) for torch in theirs):
        places = [place for place, torch in enumerate(theirs) if rivals.get(torch, -1) == number]
        if number < 0 or len(places) < 2:
            continue
        matched = told_apart(
            _paths((theirs[place] for place in places), renaming), _paths(ours[place] for place in places)
        )
        if matched is not None:
            for place, other in zip(places, matched, strict=True):
                answer[place] = theirs[places[other]], "name"
    return answer


def _seen(unit: Unit) -> bool:
    return unit.seen != (None, None)


def _paths(nodes: Iterable[Node], renaming: Renaming | None = None) -> list[str]:
    """The names of the nodes, after the user's renaming."""
    if renaming is None:
        return [node[0].place for node in nodes]
    found = []
    for node in nodes:
        place, label = node[0].place, node[0].label
        new = renaming(label)
        found.append(place if new == label else new.removesuffix(label[len(place) :]))
    return found
