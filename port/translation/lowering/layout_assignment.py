"""The layout stage: every tensor's axes get an order in JAX, and every operator the expression for that order.

A source (an input, a parameter, a permutation) may lie as its readers want it. What they want is found by going
through the graph again: where a reader needs another layout than an array has, the source that the array follows is
given that layout in the next round, and where that helps nobody, a transpose is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.frontend.constants import constant
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, ScopeEnter, ScopeExit, Step, each_value, mapped
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import LoweredGraph
from port.translation.lowering.context import LoweringContext
from port.translation.lowering.rules import apply, apply_layer
from port.translation.lowering.rules.loops import place_loop
from port.translation.lowering.rules.parameters import place_held

_ROUNDS = 12


def place(graphs: dict[bool, Graph], root: Any) -> dict[bool, LoweredGraph]:
    """Carry graphs over to JAX, with the same layouts for what they share.

    Args:
        graphs: of `port.translation.frontend.export`, by whether they are of training.
        root: the torch module that was captured.
    """
    preferred: dict[str, Layout] = {}
    for _ in range(_ROUNDS):
        stages = {training: LoweringContext(graph, root, preferred, training) for training, graph in graphs.items()}
        wanted: dict[str, Layout] = {}
        for stage in stages.values():
            _go_through(stage)
            wanted = {**stage.wanted, **wanted}
        if not wanted:
            break
        preferred.update(wanted)
    return {training: stage.placed for training, stage in stages.items()}


def _go_through(stage: LoweringContext) -> None:
    graph = stage.graph
    for value in graph.inputs:
        stage.placed.values[value.name] = value
        stage.placed.layouts[value] = stage.preferred.get(value.name, torchs(value.rank))
        stage.sources.add(value)
    for value, path in graph.held.items():
        place_held(stage, value, path)
    for value, tensor in graph.constants.items():
        stage.placed.layouts[value] = torchs(value.rank)
        stage.literals[value] = constant(tensor)
    scopes: list[str] = []
    for step in graph.steps:
        _place_step(stage, step, scopes)


def _place_step(stage: LoweringContext, step: Step, scopes: list[str]) -> None:
    match step:
        case Operation():
            stage.place = step.place
            apply(stage, step)
        case LayerCall():
            stage.place = step.place
            apply_layer(stage, step)
        case Loop():
            place_loop(stage, step, lambda inner: _place_step(stage, inner, scopes))
        case ScopeEnter():
            stage.place = step.place
            scopes.append(step.path)
            stage.scope = step.path
            for value in each_value(step.arguments):
                stage.settle(value)
            stage.placed.steps.append(replace(step, arguments=mapped(step.arguments, stage.ref)))
        case ScopeExit() if not step.path:
            for path, value in stage.graph.written.items():
                stage.write(path, value)
            stage.placed.steps.append(replace(step, results=mapped(step.results, stage.result)))
        case ScopeExit():
            scopes.pop()
            stage.scope = scopes[-1]
            stage.placed.steps.append(replace(step, results=mapped(step.results, stage.ref)))
