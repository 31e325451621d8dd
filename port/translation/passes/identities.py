"""Remove operators without effect, which disabled options leave behind: ``x + 0``, ``x * 1.0``, a pad of 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.ir.graph import (
    Graph,
    Loop,
    Operation,
    Step,
    Value,
    each_step,
    reading,
)

_NEUTRAL = {
    "aten.add.Tensor": 0,
    "aten.add.Scalar": 0,
    "aten.sub.Tensor": 0,
    "aten.sub.Scalar": 0,
    "aten.mul.Tensor": 1,
    "aten.mul.Scalar": 1,
    "aten.div.Tensor": 1,
    "aten.div.Scalar": 1,
}
"""Operator → its neutral operand."""
_PADS = ("aten.pad.default", "aten.constant_pad_nd.default")
"""Operators without effect if every width is 0."""
_OPTIONS = frozenset((*_NEUTRAL, *_PADS))


def without_identities(graph: Graph) -> Graph:
    """Remove operators whose result equals their operand, with the same dtype.

    Three kinds stay: the addition of zero to floats, which turns -0.0 into 0.0; operators under ``torch.no_grad()``,
    which stop gradients; and operators whose source line runs with another number in another module or call, because
    the number is then an option of a class whose instances share one source.
    """
    held = {*graph.held, *graph.constants}
    operations = [step for step in each_step(graph.steps) if isinstance(step, Operation)]
    options = {_line(each) for each in operations if each.operator in _OPTIONS and _identity(each) is None}
    left_out = {
        id(each)
        for each in operations
        if (taken := _identity(each)) is not None and taken not in held and _line(each) not in options
    }
    if not left_out:
        return graph
    same: dict[Value, Value] = {}
    steps = _kept(graph.steps, same, left_out)
    return replace(graph, steps=steps, written={name: same.get(value, value) for name, value in graph.written.items()})


def _line(operation: Operation) -> tuple[Any, ...]:
    """Return a key for the operator and its source line; a unique one if the line is unknown."""
    return (operation.operator, operation.place) if operation.place is not None else (id(operation),)


def _kept(steps: tuple[Step, ...], same: dict[Value, Value], left_out: set[int]) -> tuple[Step, ...]:
    kept = []
    for step in steps:
        if id(step) in left_out and isinstance(step, Operation):
            taken = _identity(step)
            assert taken is not None
            same[step.results[0]] = same.get(taken, taken)
            continue
        if isinstance(step, Loop):
            step = replace(step, steps=_kept(step.steps, same, left_out))
        kept.append(reading(step, lambda value: same.get(value, value)) if same else step)
    return tuple(kept)


def _identity(operation: Operation) -> Value | None:
    """Return the operand that an operator's result equals; None if there is none."""
    taken, number = operation.arguments.get("self"), operation.arguments.get("other")
    if operation.detached or operation.operator not in _OPTIONS or not isinstance(taken, Value):
        return None
    if operation.operator in _PADS:
        is_none = all(type(width) is int and width == 0 for width in operation.arguments["pad"])
        return taken if is_none else None
    if type(number) not in (int, float) or number != _NEUTRAL[operation.operator]:
        return None
    (result,) = operation.results
    is_same = (result.shape, result.dtype) == (taken.shape, taken.dtype)
    return taken if is_same and (number or ("float" not in taken.dtype and "complex" not in taken.dtype)) else None
