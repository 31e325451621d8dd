"""Rivals: nodes whose twins could be exchanged, since they have the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations

from port.matching.activations import Print
from port.matching.options import Node
from port.matching.running import StateRuns
from port.matching.state import Decision, State

FEW = 4
"""Up to this many rivals, all orders are tried; of more, two are exchanged at a time."""


def rivals(runs: StateRuns, state: State, flax: Node) -> tuple[Node, ...]:
    """Nodes that only what follows tells from this one, or whose inputs were not observed; with the node itself.

    Their twins have the same input as this one's. None if there are no others.
    """
    torch = state.decisions[flax].option.torch
    own = runs.torch.input(torch[0])
    group = tuple(
        other
        for other, made in state.decisions.items()
        if other == flax
        or (
            runs.problem.between(torch, other)
            and runs.problem.between(made.option.torch, flax)
            and "your rule" not in (made.by, state.decisions[flax].by)
            and (_are_hidden(runs, flax, other) or _alike(runs, own, runs.torch.input(made.option.torch[0])))
        )
    )
    return group if len(group) > 1 else ()


def _are_hidden(runs: StateRuns, *nodes: Node) -> bool:
    """Whether the calls of these Flax nodes are not observed, as inside a scan."""
    return all(runs.own.input(node[0]) is None for node in nodes)


def _alike(runs: StateRuns, one: Print | None, other: Print | None) -> bool:
    return (one is None and other is None) or runs.same(one, other)


def permuted(runs: StateRuns, state: State, group: tuple[Node, ...]) -> Iterator[State]:
    """States with the group's twins in other orders: all orders for a few, exchanges of two for many."""
    twins = [state.decisions[flax].option.torch for flax in group]
    places = range(len(group))
    orders: Iterable[tuple[int, ...]]
    if len(group) <= FEW:
        orders = list(permutations(places))[1:]
    else:
        orders = [_exchanged(len(group), *two) for two in combinations(places, 2)]
    for order in orders:
        made = {
            flax: Decision(ways[0], "activations")
            for number, (flax, place) in enumerate(zip(group, order, strict=True))
            if place != number and (ways := runs.problem.between(twins[place], flax))
        }
        if len(made) == sum(place != number for number, place in enumerate(order)):
            yield state.decided(made)


def _exchanged(count: int, one: int, other: int) -> tuple[int, ...]:
    order = list(range(count))
    order[one], order[other] = other, one
    return tuple(order)
