"""Builds the matching problem of two models; its nodes are in the order of their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from port.mapping import Guide, Rules
from port.mapping.renaming import Renaming
from port.matching.activations import EXACT, Activations, alike
from port.matching.flattening import flattened_shapes
from port.matching.options import Node
from port.matching.problem import Problem, problem_of
from port.matching.proposing import Rivals, proposed
from port.matching.sides import Sides
from port.matching.state import State
from port.matching.torch_units import torch_units
from port.matching.units import Unit, units_of


def posed(sides: Sides, torch: Guide, flax: Guide, shown: Activations, rules: Rules) -> Problem:
    """Build the problem of two models.

    Args:
        sides: both models.
        torch: torch's guide, without what the user's rules cover.
        flax: Flax's guide.
        shown: torch's activations.
        rules: the user's rules.
    """
    theirs = torch_units(torch, sides.torch.modules)
    ours = units_of(flax)
    order = {unit: place for place, unit in enumerate(theirs)}
    theirs.sort(key=lambda unit: (shown.place(unit), order[unit]))
    ours.sort(key=lambda unit: sides.own.place(unit))
    shapes = flattened_shapes(sides.run, theirs, shown) if sides.layout.moved else {}
    shapes = {path: ways for path, ways in shapes.items() if path not in rules.fold}
    problem = problem_of(theirs, ours, flax, (_same_input(shown), _same_input(sides.own)), shapes)
    # Again, now that layers may have been split into parts.
    places = {node: number for number, node in enumerate(problem.torch)}
    nodes = sorted(problem.torch, key=lambda node: (shown.place(node[0]), places[node]))
    others = sorted(problem.flax, key=lambda node: sides.own.place(node[0]))
    return replace(problem, torch=tuple(nodes), flax=tuple(others))


def _same_input(shown: Activations) -> Callable[[Unit, Unit], bool]:
    return lambda one, other: alike(shown.input(one), shown.input(other), EXACT)


def grouped_by_input(nodes: tuple[Node, ...], shown: Activations) -> Rivals:
    """Group torch's nodes by equal input."""
    found: Rivals = {}
    for number, node in enumerate(nodes):
        for other in nodes[:number]:
            if other in found and alike(shown.input(node[0]), shown.input(other[0]), EXACT):
                found[node] = found[other]
                break
        else:
            if shown.input(node[0]) is not None:
                found[node] = number
    return found


def with_tied(problem: Problem, state: State, sides: Sides, torch: Guide, flax: Guide) -> tuple[Problem, State]:
    """Match Flax's nodes without a twin to the later names of torch's tied tensors, which Flax may store separately."""
    left = tuple(node for node in problem.flax if node not in state.decisions)
    if not left or not torch.tied:
        return problem, state
    aliases = torch_units(torch, sides.torch.modules, tied=True)
    more = problem_of(aliases, [unit for node in left for unit in node], flax, (lambda a, b: False,) * 2, {})
    options = {pair: ways for pair, ways in more.options.items() if pair[1] in left}
    problem = Problem((*problem.torch, *more.torch), problem.flax, {**problem.options, **options})
    extra = proposed(Problem(more.torch, left, options), Renaming(), {})
    return problem, state.decided(extra.decisions)
