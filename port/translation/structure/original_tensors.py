"""Find the original's tensor behind a variable: several tensors may share an array, each a permutation of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import LayerCall, Operation, Value, each_step, each_value
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.call_tree import Call, FunctionCall
from port.translation.structure.source_map import statement_at


def passed_tensor(call: Call, lowered: LoweredGraph, parameter: str, array: Value) -> Value | None:
    """The tensor passed for a parameter whose written counterpart holds an array; None if uncertain.

    Args:
        call: the function's call.
        lowered: the lowered graph.
        parameter: the parameter's name.
        array: the array that the written parameter holds.
    """
    found = [tensor for tensor in _passed(call, lowered, parameter) if isinstance(tensor, Value)]
    if any(tensor.name == array.name for tensor in found):
        return array
    return found[0] if len(found) == 1 and _is_of(found[0], array, lowered) else None


def held_tensor(call: Call, lowered: LoweredGraph, parameter: str) -> Value | None:
    """A module's tensor passed for a parameter; None if it is none, or its axes are folded.

    Args:
        call: the function's call.
        lowered: the lowered graph.
        parameter: the parameter's name.
    """
    found = [tensor for tensor in _passed(call, lowered, parameter) if isinstance(tensor, Value)]
    is_held = len(found) == 1 and found[0] in lowered.graph.held and found[0] in lowered.layouts
    return found[0] if is_held and lowered.layouts[found[0]].folded is None else None


def _passed(call: Call, lowered: LoweredGraph, parameter: str) -> Iterator[Any]:
    for step in each_step(lowered.graph.steps):
        match step:
            case FunctionEnter() if isinstance(call, FunctionCall) and step.call == call.enter.call:
                yield step.arguments.get(parameter)
            case ScopeEnter() if not isinstance(call, FunctionCall) and step.key == call.key:
                yield step.arguments.get(parameter)


def assigned_tensor(lowered: LoweredGraph, array: Value, place: SourceLocation) -> Value | None:
    """The tensor that a statement assigns to a variable whose written counterpart holds an array; None if uncertain.

    Args:
        lowered: the lowered graph.
        array: the array that the variable holds.
        place: the first line of the statement.
    """
    found: Value | None = None
    for step in each_step(lowered.graph.steps):
        match step:
            case Operation() | LayerCall():
                is_there = _is_at(step.place, place)
                if any(value.name == array.name for value in each_value(step.results)):
                    found = array if is_there else None
                elif found is not None and is_there and isinstance(step, Operation):
                    taken = step.arguments.get("self", step.arguments.get("input"))
                    if taken == found and len(step.results) == 1 and step.results[0].name not in lowered.values:
                        found = step.results[0]  # the same array, permuted
            case ScopeExit() | FunctionExit():
                # A call returns this array itself, not a permutation of it.
                if any(value.name == array.name for value in each_value(step.results)):
                    found = array
    return found if found is None or found.shape is not None else None


def _is_of(tensor: Value, array: Value, lowered: LoweredGraph) -> bool:
    """Whether an array of the written code holds a tensor: they have the same length along corresponding axes."""
    if tensor not in lowered.layouts or tensor.name in lowered.values or tensor.shape is None:
        return False
    own, layout = lowered.layouts[array], lowered.layouts[tensor]
    shape, theirs = array.shape or (), tensor.shape
    return len(shape) == len(theirs) and [shape[dim] for dim in own.order] == [theirs[dim] for dim in layout.order]


def _is_at(place: SourceLocation | None, statement: SourceLocation) -> bool:
    found = statement_at(place)
    return found is not None and found.place == statement
