"""Remove expands whose reader broadcasts anyway: ``x * y.expand_as(x)`` becomes ``x * y``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from port.translation.ir.graph import Graph, Loop, Operation, Size, Step, Value, each_step, reading

_EXPAND = "aten.expand.default"
_BROADCAST = frozenset(
    f"aten.{name}"
    for name in (
        *(f"{name}.Tensor" for name in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "remainder")),
        *(f"{name}.default" for name in ("maximum", "minimum", "logical_and", "logical_or", "atan2")),
        "pow.Tensor_Tensor",
        "where.self",
    )
)
"""Operators that broadcast their operands."""


def without_needless_expands(graph: Graph) -> Graph:
    """Let broadcasting operators read the tensor before its expand, if the result's shape stays the same."""
    expanded = {
        step.results[0]: step.arguments["self"]
        for step in each_step(graph.steps)
        if isinstance(step, Operation) and step.operator == _EXPAND and _is_plain(step)
    }
    return replace(graph, steps=_reading_less(graph.steps, expanded)) if expanded else graph


def _is_plain(expand: Operation) -> bool:
    """Whether the expand can be removed: not from a 0-d tensor, which has other type promotion."""
    return not expand.detached and bool(expand.arguments["self"].shape)


def _reading_less(steps: tuple[Step, ...], expanded: Mapping[Value, Value]) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps:
        if isinstance(step, Loop):
            step = replace(step, steps=_reading_less(step.steps, expanded))
        elif isinstance(step, Operation) and step.operator in _BROADCAST:
            needless = _needless(step, expanded)
            if needless:
                step = reading(step, lambda value, needless=needless: needless.get(value, value))  # type: ignore[misc]
        made.append(step)
    return tuple(made)


def _needless(step: Operation, expanded: Mapping[Value, Value]) -> dict[Value, Value]:
    """Return the expanded operands to replace → their tensors before: all of them, or one, or none."""
    read = [each for each in step.arguments.values() if isinstance(each, Value) and each.shape is not None]
    found = {each: expanded[each] for each in read if each in expanded}
    (result,) = step.results
    for some in [found, *({value: found[value]} for value in found)]:
        shapes = [some.get(each, each).shape or () for each in read]
        if some and _broadcast(shapes) == result.shape:
            return some
    return {}


def _broadcast(shapes: Iterable[tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """Return the broadcast shape; None if two lengths are not known to be equal."""
    found: list[Size] = []
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            if place == len(found):
                found.append(size)
            elif size != 1 and found[place] not in (1, size):
                return None
            elif size != 1:
                found[place] = size
    return tuple(reversed(found))
