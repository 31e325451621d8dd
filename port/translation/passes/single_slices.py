"""Recognise steps that take a single slice of a tensor along an axis, as iterations of a loop do."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir.graph import Operation, Step, Value


@dataclass(frozen=True)
class Element:
    """A tensor that is one slice of another.

    Attributes:
        whole: the sliced tensor.
        axis: the axis.
        index: the index along it.
        kept: whether the slice keeps the axis, with length 1.
    """

    whole: Value
    axis: int
    index: int
    kept: bool = False


def element_of(step: Step | None) -> Element | None:
    """Return the slice that a step takes; None for other steps."""
    match step:
        case Operation(operator="aten.select.int", arguments={"self": whole, "dim": int(dim), "index": int(index)}):
            axis = dim % whole.rank
            length = whole.shape[axis]
            return Element(whole, axis, index % length) if isinstance(length, int) else None
        case Operation(
            operator="aten.slice.Tensor",
            arguments={"self": whole, "dim": int(dim), "start": int(start), "end": int(end), "step": 1},
        ) if end == start + 1 and start >= 0:
            axis = dim % whole.rank
            return Element(whole, axis, start, kept=True) if isinstance(whole.shape[axis], int) else None
    return None


def elements_of(step: Step) -> dict[Value, Element]:
    """Return the results of a step that are single slices of its operand."""
    single = element_of(step)
    if single is not None:
        assert isinstance(step, Operation)
        return {step.results[0]: single}
    match step:
        case Operation(operator="aten.unbind.int", arguments={"self": whole, "dim": int(dim)}):
            return {value: Element(whole, dim % whole.rank, number) for number, value in enumerate(step.results)}
        case Operation(operator="aten.split.Tensor", arguments={"self": whole, "split_size": 1, "dim": int(dim)}):
            axis = dim % whole.rank
            return {value: Element(whole, axis, number, kept=True) for number, value in enumerate(step.results)}
    return {}
