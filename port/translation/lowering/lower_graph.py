"""Lower a captured graph to JAX expressions, each array in its layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.frontend.constants import constant
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, Step, each_value, mapped, with_known_origins
from port.translation.ir.layout import torchs
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_calls import FORWARD, ScopeEnter, ScopeExit
from port.translation.lowering.context import LoweringContext
from port.translation.lowering.rules import apply, apply_layer
from port.translation.lowering.rules.loops import lower_loop
from port.translation.lowering.rules.parameters import lower_held


def lower_graph(graph: Graph, root: Any, layouts: Layouts, *, training: bool) -> LoweredGraph:
    """Lower a graph to JAX.

    Args:
        graph: the graph from `port.translation.frontend.export`.
        root: the torch module that was captured.
        layouts: the layouts from `port.translation.lowering.layout_assignment.analyse`.
        training: the mode.
    """
    stage = LoweringContext(graph, root, layouts.chosen, training)
    begin(stage)
    for value, tensor in graph.constants.items():
        stage.literals[value] = constant(tensor)
    scopes: list[str] = []
    for step in graph.steps:
        lower_step(stage, step, scopes)
    return stage.graph_lowered()


def begin(stage: LoweringContext) -> None:
    """Set the layouts of inputs, parameters, buffers and constants."""
    for value in stage.graph.inputs:
        stage.values[value.name] = value
        stage.layouts[value] = stage.chosen_layout(value) or torchs(value.rank)
        stage.sources.add(value)
    for value, path in stage.graph.held.items():
        lower_held(stage, value, path)
    for value in stage.graph.constants:
        stage.layouts[value] = torchs(value.rank)


def lower_step(stage: LoweringContext, step: Step, scopes: list[str]) -> None:
    """Lower a step; ``scopes`` are the paths of the enclosing modules."""
    match step:
        case Operation():
            stage.place = step.place
            apply(stage, with_known_origins(step))
        case LayerCall():
            stage.place = step.place
            apply_layer(stage, with_known_origins(step))
        case Loop():
            lower_loop(stage, step, lambda inner: lower_step(stage, inner, scopes))
        case ScopeEnter():
            stage.place = step.place
            scopes.append(step.path)
            stage.scope = step.path
            for value in each_value(step.arguments):
                stage.materialise(value)
            stage.lowered.append(replace(step, arguments=mapped(with_known_origins(step).arguments, stage.ref)))
            if step.method != FORWARD:
                stage.enter_function()
        case FunctionEnter():
            stage.place = step.place
            arguments = mapped(with_known_origins(step).arguments, stage.ref)
            stage.lowered.append(replace(step, arguments=arguments))
            stage.enter_function(each_value(step.arguments))
        case FunctionExit():
            stage.lowered.append(replace(step, results=mapped(step.results, stage.ref)))
            stage.leave_function()
        case ScopeExit() if step.is_roots:
            for path, value in stage.graph.written.items():
                stage.write(path, value)
            stage.lowered.append(replace(step, results=mapped(step.results, stage.result)))
        case ScopeExit():
            scopes.pop()
            stage.scope = scopes[-1]
            stage.lowered.append(replace(step, results=mapped(step.results, stage.ref)))
            if step.method != FORWARD:
                stage.leave_function()
