"""Steps that take one slice of a tensor along an axis: a round of a loop over it reads the next."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir.graph import Operation, Step, Value


@dataclass(frozen=True)
class Element:
    """A tensor that is one slice of another: along which axis, and which one; with that axis, or without it."""

    whole: Value
    axis: int
    index: int
    kept: bool = False


def element_of(step: Step | None) -> Element | None:
    """What a step takes, if it is one slice along an axis."""
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
    """Which of a step's results are slices of what it takes."""
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
