"""Inline functions of the original into their callers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from inspect import getsourcelines
from types import FunctionType

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, Step, each_step
from port.translation.ir.source_location import SourceLocation
from port.translation.passes.dead_code import without_dead_code


def functions_of(graph: Graph) -> set[FunctionType]:
    """Return the functions whose calls a run marks."""
    return {step.function for step in each_step(graph.steps) if isinstance(step, FunctionEnter)}


def without_functions(graph: Graph, which: Collection[FunctionType] | None = None) -> Graph:
    """Inline functions: remove the marks of their calls, and the steps that only computed their arguments.

    Args:
        graph: the graph; returned unchanged if it has no such marks.
        which: the functions to inline; by default all.
    """
    gone = functions_of(graph) if which is None else functions_of(graph) & {*which}
    if not gone:
        return graph
    steps = list(_unmarked(graph.steps, gone))
    return replace(graph, steps=tuple(without_dead_code(steps, set(graph.written.values()))))


def with_same_functions(graphs: Mapping[bool, Graph]) -> dict[bool, Graph]:
    """Inline in all modes the functions that rerolling has inlined in one, since the modes share a source."""
    found = {training: functions_of(graph) for training, graph in graphs.items()}
    gone: set[FunctionType] = set()
    for mode, graph in graphs.items():
        others = set[FunctionType]().union(*(found[other] for other in graphs if other != mode)) - found[mode]
        gone |= {function for function in others if _is_inlined_in(graph, function)}
    if not gone:
        return dict(graphs)
    same = set.intersection(*found.values()) - gone
    return {training: without_functions(graph, found[training] - same) for training, graph in graphs.items()}


def _is_inlined_in(graph: Graph, function: FunctionType) -> bool:
    """Whether a run has steps that come from a function's own lines."""
    try:
        lines, first = getsourcelines(function)
    except (OSError, TypeError):
        return True
    file = function.__code__.co_filename
    places = (step.place for step in each_step(graph.steps) if isinstance(step, Operation | LayerCall))
    return any(_is_within(place, file, first, first + len(lines)) for place in places)


def _is_within(place: SourceLocation | None, file: str, first: int, end: int) -> bool:
    return place is not None and place.file == file and first <= place.line < end


def _unmarked(steps: Iterable[Step], gone: set[FunctionType]) -> tuple[Step, ...]:
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, FunctionEnter | FunctionExit) and step.function in gone:
            continue
        kept.append(replace(step, steps=_unmarked(step.steps, gone)) if isinstance(step, Loop) else step)
    return tuple(kept)
