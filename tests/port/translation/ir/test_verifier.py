"""Each fault in a graph is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from port.translation.both_modes import both_runs
from port.translation.ir.graph import Graph, Loop
from port.translation.ir.layout import Layout
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.verifier import BrokenGraph, verify_graph, verify_lowered

from .graphs import H, W, X, Y, looped, operation, straight, value


def test_right_graphs_are_whole() -> None:
    verify_graph(straight())
    verify_graph(looped())


def _with_steps(change: Callable[[list], None]) -> Graph:
    graph = straight()
    steps = [*graph.steps]
    change(steps)
    return replace(graph, steps=tuple(steps))


LINEAR, RELU = operation("aten.linear.default", H, input=X, weight=W), operation("aten.relu.default", Y, self=H)

BROKEN = {
    "read before it is made": (straight(RELU, LINEAR), "aten.relu.default reads %h, which nothing before it makes"),
    "never made": (straight(LINEAR), "the call of the model reads %y"),
    "made twice": (straight(LINEAR, LINEAR, RELU), "aten.linear.default makes %h, which is there already"),
    "not left": (_with_steps(lambda steps: steps.pop()), "the model is entered and never left"),
    "left twice": (_with_steps(lambda steps: steps.append(steps[-1])), "the model is left and was not entered last"),
    "scopes crossed": (
        straight(
            LINEAR, ScopeEnter("a", 0, nn.ReLU(), {}), ScopeEnter("b", 0, nn.ReLU(), {}), RELU, ScopeExit("a", 0, Y)
        ),
        "a is left and was not entered last",
    ),
    "a loop that begins with another shape": (
        looped(first=value("x", "n", 4)),
        "a loop reads %x, which nothing before it makes",
    ),
    "written and not made": (replace(straight(), written={"weight": value("new", 5, 3)}), "reads %new"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_is_named(fault: str) -> None:
    graph, message = BROKEN[fault]
    with pytest.raises(BrokenGraph, match=message):
        verify_graph(graph)


def test_a_carried_value_has_one_shape() -> None:
    graph = looped()
    before, loop, behind = graph.steps
    assert isinstance(loop, Loop)
    narrow = value("narrow", "n", 4)
    broken = replace(loop, carried=(replace(loop.carried[0], first=narrow),))
    graph = replace(graph, constants={**graph.constants, narrow: None}, steps=(before, broken, behind))
    with pytest.raises(BrokenGraph, match="begins with %narrow of another shape"):
        verify_graph(graph)


def test_a_lowered_graph_is_whole_and_faults_in_it_are_found() -> None:
    lowered = both_runs(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 5, 6), None, free=()).runs[
        False
    ]
    verify_lowered(lowered)
    steps = list(lowered.steps)
    made = next(number for number, step in enumerate(steps) if not isinstance(step, ScopeEnter | ScopeExit))
    with pytest.raises(BrokenGraph, match="which nothing before it makes"):
        verify_lowered(replace(lowered, steps=(*steps[:made], *steps[made + 1 :])))
    some = next(each for each in lowered.layouts if each.rank == 4)
    lowered = replace(lowered, layouts={**lowered.layouts, some: Layout((0, 1, 2))})
    with pytest.raises(BrokenGraph, match=r"has 4 axes, and its layout is \(0, 1, 2\)"):
        verify_lowered(lowered)
