"""The table: a row for each Flax node with what decided it, and for what is left over on either side."""

from __future__ import annotations

from port.mapping import Entry, Guide
from port.mapping.found import Found
from port.mapping.given import BUFFER
from port.mapping.names import nearest
from port.mapping.slots import is_extra_state
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.result import Candidate, Row, renaming_to
from port.matching.state import State


def rows_of(
    problem: Problem,
    state: State,
    rule_entries: tuple[Entry, ...],
    aside: list[Found],
    undecided: dict[Node, list[Node]],
    other_ways: dict[Node, list[Option]],
    torch: Guide,
    flax: Guide,
    alone: tuple[frozenset[str], frozenset[str], frozenset[str]] = (frozenset(), frozenset(), frozenset()),
) -> tuple[Row, ...]:
    """Make all rows, in torch's order; open ones last.

    Args:
        problem: the nodes.
        state: the decisions.
        rule_entries: entries of the user's rules.
        aside: torch's tensors that need no twin.
        undecided: Flax's node → torch's nodes that it could be.
        other_ways: Flax's node → the ways in which its weights could be moved.
        torch: torch's guide, without what the rules cover.
        flax: Flax's guide.
        alone: what needs no twin: parameters of either side that do not affect what the models compute, and Flax's
            constants.
    """
    idle, idle_flax, constants = alone
    sure = [Row(entry.sources, entry.targets, "your rule") for entry in rule_entries]
    for found in aside:
        why = _IDLE if idle.issuperset(found.torch) else "a constant"
        sure.append(Row(found.torch, (), "no twin needed", f"{why}, kept aside for the way back"))
    unclear: list[Row] = []
    for node, made in state.decisions.items():
        theirs, ours = _tensors(made.option.torch), _tensors(node)
        if node in undecided:
            candidates = tuple(_candidate(twin, node) for twin in undecided[node])
            unclear.append(Row((), ours, "open", "these agree as well as one another", candidates))
        elif node in other_ways:
            ways = tuple(Candidate(theirs, ours, how=way.note) for way in other_ways[node])
            unclear.append(Row(theirs, ours, "open", "its weights could be moved in several ways", ways))
        else:
            sure.append(Row(theirs, ours, made.by, made.option.note))
    unclear += _left(problem, state, aside, torch, flax, idle_flax | constants)
    order = {name: place for place, name in enumerate(torch.leaves)}
    sure.sort(key=lambda row: order.get(row.torch[0], len(order)))
    for names, why in ((idle_flax, _IDLE), (constants, "a constant")):
        sure += [Row((), (name,), "no twin needed", f"{why}, and keeps its value") for name in sorted(names)]
    return (*sure, *unclear)


_IDLE = "does not affect what the model computes with these inputs"


def left_over(problem: Problem, state: State, spared: set[str]) -> tuple[list[Node], list[Node]]:
    """List nodes of both sides without a twin.

    Args:
        problem: the nodes.
        state: the decisions.
        spared: torch's tensors that need none.
    """
    used = {made.option.torch for made in state.decisions.values()}
    theirs = [node for node in problem.torch if node not in used and not spared.issuperset(_tensors(node))]
    return theirs, [node for node in problem.flax if node not in state.decisions]


def _left(
    problem: Problem, state: State, aside: list[Found], torch: Guide, flax: Guide, alone: frozenset[str]
) -> list[Row]:
    """Make rows for what has no twin at all, with its possibilities."""
    spared = {name for found in aside for name in found.torch} | {n for n in torch.leaves if is_extra_state(n)}
    spared |= set(torch.tied)
    theirs, ours = left_over(problem, state, spared)
    ours = [
        node
        for node in ours
        if not alone.issuperset(_tensors(node))
        and any(flax.leaves[name].collection != BUFFER for name in _tensors(node))
    ]
    rows = []
    for node in ours:
        twins = [other for other in theirs if problem.between(other, node)]
        candidates = tuple(_candidate(other, node) for other in twins)
        near = nearest(_tensors(node)[0], [name for other in theirs for name in _tensors(other)])
        shapes = ", ".join(str(flax.leaves[name].shape) for name in _tensors(node))
        why = "several of torch's could be it" if twins else f"nothing left of torch's has its kind and shape{near}"
        rows.append(Row((), _tensors(node), "open", f"{why}; shape {shapes}", candidates))
    for node in theirs:
        if any(problem.between(node, other) for other in ours):
            continue  # it is listed among the candidates
        near = nearest(_tensors(node)[0], [name for other in ours for name in _tensors(other)])
        shapes = ", ".join(str(torch.leaves[name].shape) for name in _tensors(node))
        note = f"nothing left of Flax's has its kind and shape{near}; shape {shapes}"
        rows.append(Row(_tensors(node), (), "open", note))
    return rows


def _candidate(torch: Node, flax: Node) -> Candidate:
    rename = renaming_to(torch[0].place, flax[0].place) if len(torch) == len(flax) == 1 else ""
    return Candidate(_tensors(torch), _tensors(flax), rename)


def _tensors(node: Node) -> tuple[str, ...]:
    return tuple(name for unit in node for name in unit.tensors)
