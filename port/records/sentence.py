"""The verdict as a sentence."""

from __future__ import annotations

from port.judging import Status
from port.judging.limits import CONTROL_FACTOR
from port.records.limits import later_floor
from port.records.read import Record
from port.records.verdict import Differences, RecordFinding


def names_of(a: Record, b: Record) -> tuple[str, str]:
    """The names of two records: their sides, or their files if both have the same side."""
    if a.name != b.name:
        return a.name, b.name
    return (a.path.stem, b.path.stem) if a.path.stem != b.path.stem else (str(a.path), str(b.path))


def sentence_of(
    status: Status,
    a: Record,
    b: Record,
    findings: list[RecordFinding],
    steps: Differences,
    evaluations: Differences,
    precision: str,
    judged_until: int | None,
) -> str:
    """The verdict in one sentence; for a large difference, with what rounding alone makes of the first run."""
    names = " and ".join(names_of(a, b))
    if status is Status.DIFFER:
        return f"{names} differ: {findings[0].why}."
    step, value = steps.largest() or (0, 0.0)
    furthest = f"the largest relative difference of the loss is {value:.2e}, at step {step}"
    if status is Status.CANNOT_JUDGE:
        return (
            f"{names} agree in {precision} up to step {judged_until} and cannot be judged beyond it: "
            f"training makes rounding large, and {_measured(a, b, steps, evaluations)}."
        )
    if value == 0 and precision != "float64":
        return f"{names} have the same losses to the last bit, over {len(steps.steps)} steps in {precision}."
    if precision == "float64":
        return f"{names} are the same over {len(steps.steps)} steps in float64: {furthest}."
    if steps.controls and value > later_floor(precision):
        return _beside_controls(a, b, steps, precision)
    if steps.controls:
        return f"{names} are as equal as {precision} can say, over {len(steps.steps)} steps: {furthest}."
    return f"{names} agree over {len(steps.steps)} steps in {precision}: {furthest}."


def _measured(a: Record, b: Record, steps: Differences, evaluations: Differences) -> str:
    """What controls show about steps, or about evaluations alone, that cannot be judged."""
    if not steps.controls:
        return "there is no control to measure that by"
    name = names_of(a, b)[0]
    differences, where = (steps, "") if steps.unjudged else (evaluations, " in evaluation")
    _, value = differences.largest() or (0, 0.0)
    strayed = max(map(max, differences.controls))
    return (
        f"{name} strays from itself as well{where}, by up to {strayed:.2e} when its initial weights are perturbed in "
        f"their last places; the two are {value:.2e} apart there"
    )


def _beside_controls(a: Record, b: Record, steps: Differences, precision: str) -> str:
    """How far apart two runs are whose losses visibly differ, and how far the first is from itself."""
    names = names_of(a, b)
    step, value = steps.largest() or (0, 0.0)
    strayed = max(map(max, steps.controls))
    nearer = value <= strayed
    compared = f"no further apart in {precision} than" if nearer else f"about as far apart in {precision} as"
    allowed = "" if nearer else f"; {CONTROL_FACTOR:.0f} times that is allowed"
    return (
        f"{names[0]} and {names[1]} are {compared} {names[0]} is from itself, over {len(steps.steps)} steps: their "
        f"losses differ by up to {value:.2e}, at step {step}, and by up to {strayed:.2e} between {names[0]} and "
        f"{names[0]} with its initial weights perturbed in their last places{allowed}."
    )
