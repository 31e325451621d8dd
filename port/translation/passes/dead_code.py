"""Dead code elimination. A dead operator that draws random numbers leaves a mark, since the original still draws."""

from __future__ import annotations

from port.translation.ir.graph import UNREAD_DRAW, Loop, Operation, Step, Value, read_by
from port.translation.passes.stateful import draws


def without_dead_code(steps: list[Step], ends: set[Value]) -> list[Step]:
    """Remove operators whose results nothing reads; calls stay.

    A dead operator that draws random numbers is replaced by `UNREAD_DRAW`, which has no results: it keeps the count of
    the original's draws right.

    Args:
        steps: the steps of a run, or of a loop's iteration.
        ends: the values that are read after the last step.
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
    """Whether a step marks a random draw of the original that nothing reads."""
    return isinstance(step, Operation) and step.operator == UNREAD_DRAW
