"""Operators whose results nobody reads are left out; of those that draw, it is remembered that the original draws."""

from __future__ import annotations

from port.translation.ir.graph import UNREAD_DRAW, Loop, Operation, Step, Value, read_by
from port.translation.passes.stateful import draws


def without_dead_code(steps: list[Step], ends: set[Value]) -> list[Step]:
    """Without operators whose results nobody reads; calls and their ends stay.

    Where one of them draws random numbers, `UNREAD_DRAW` takes its place: it makes nothing, and what the original draws
    behind it is not its first draw but its second.

    Args:
        steps: of a run, or of a loop's round.
        ends: the values that are read behind the last of them.
    """
    wanted = set(ends)
    kept: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Operation) and not is_unread_draw(step) and not wanted.intersection(step.results):
            if draws(step):
                kept.append(Operation(UNREAD_DRAW, {}, (), False, step.place))
            continue
        kept.append(step)
        wanted.update(read_by(step))
        if isinstance(step, Loop):
            wanted.update(value for inner in step.steps for value in read_by(inner))
    return kept[::-1]


def is_unread_draw(step: Step) -> bool:
    """Whether the original draws random numbers here that nothing reads."""
    return isinstance(step, Operation) and step.operator == UNREAD_DRAW
