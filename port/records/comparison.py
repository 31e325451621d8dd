"""Compares two records, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from port.errors import UnknownChoice, UsageError
from port.judging import Status
from port.judging.limits import EARLY_STEPS, EPSILON, PROOF_LIMIT
from port.records.limits import control_limits, early_limit, later_floor, proof_limits, relative_differences
from port.records.read import Record, RecordLine, read_record
from port.records.sentence import names_of, sentence_of
from port.records.verdict import Differences, RecordFinding, Verdict


def compare(
    a: Record | Path | str,
    b: Record | Path | str,
    *,
    controls: Sequence[Record | Path | str] = (),
    precision: str | None = None,
) -> Verdict:
    """Decide whether two records are of the same training run.

    Every step and every evaluation is compared. A step that only one record has, a NaN or an infinity counts as a
    difference; but if one record begins later than the other, as after a resume or a handover, they are compared from
    there on. float64 records agree if no loss differs by more than `limits.PROOF_LIMIT`; if a later loss does, and
    controls have strayed as far by then, the steps from there on are not judged. Records of a lower precision are
    judged tightly over the first `limits.EARLY_STEPS`, and from there on against the controls; without controls the
    later steps are not judged, unless they are equal to the last bit.

    Args:
        a: a record, or its file; the controls are controls of this one.
        b: the other record, or its file.
        controls: runs of ``a``'s trainer with its initial weights perturbed in their last places.
        precision: the precision to judge them in, if the records do not name it.

    Raises:
        BrokenRecord: a file that is not a record.
        UsageError: a control does not belong to ``a``, or the precision is unknown.
    """
    if precision is not None and precision not in EPSILON:
        raise UnknownChoice("precision", precision, EPSILON)
    a, b, control_records = _read(a), _read(b), [_read(control) for control in controls]
    judged_as = precision or _coarser(a.precision, b.precision)
    findings = _unequal_precision(a, b) if precision is None else []
    start, begins = _start(a, b)
    a, b = _since(start, a), _since(start, b)
    findings += _not_comparable(a, b, a.steps, b.steps, "step")
    findings += _not_comparable(a, b, a.evaluations, b.evaluations, "evaluation")
    for control in control_records:
        _check_control(control, a)

    early = range(start, start + EARLY_STEPS)  # by number: a record may hold only every tenth step
    steps = _differences(a.steps, b.steps, [c.steps for c in control_records], judged_as, early)
    evaluations = _differences(a.evaluations, b.evaluations, [c.evaluations for c in control_records], judged_as, early)
    findings += _beyond(steps, a, b, "step") + _beyond(evaluations, a, b, "evaluation")
    findings.sort(key=lambda finding: -1 if finding.step is None else finding.step)

    judged_until = _judged_until(steps, evaluations)
    if findings:
        status = Status.DIFFER
    elif judged_until is not None:
        status = Status.CANNOT_JUDGE
    else:
        status = Status.AGREE
    return Verdict(
        status=status,
        precision=judged_as,
        sentence=sentence_of(status, a, b, findings, steps, evaluations, judged_as, judged_until) + begins,
        findings=findings,
        steps=steps,
        evaluations=evaluations,
        judged_until=judged_until,
        hints=[*_unfinished(a, b), *(_hints(a, b, judged_as) if findings else [])],
    )


def parts_late(verdict: Verdict) -> bool:
    """Whether the only findings are losses that part after the early steps, where rounding may be the cause."""
    late = [
        each.step is not None and each.step >= EARLY_STEPS and each.difference > each.limit for each in verdict.findings
    ]
    return bool(late) and all(late)


def _read(record: Record | Path | str) -> Record:
    record = record if isinstance(record, Record) else read_record(record)
    if not record.steps:
        raise UsageError(f"the record {record.path} has no steps to compare")
    return record


def _start(a: Record, b: Record) -> tuple[int, str]:
    """The step from which on both records have lines; if it is not the first, also a sentence that says so.

    A record that lacks only the first step counts from 1: it does not begin later, its steps are different ones.
    """
    first, later = sorted((a, b), key=lambda record: min(record.steps))
    start = min(later.steps)
    missed = sum(step < start for step in first.steps)
    if missed < 2 or start > max(first.steps):
        return min(first.steps), ""
    name = names_of(a, b)[later is b]
    return (
        start,
        f" Both have steps from {start} on, where {name} begins; the {missed} steps before are not compared.",
    )


def _since(start: int, record: Record) -> Record:
    """A record without the steps before ``step``, and without the evaluations after those."""
    steps, evaluations = (
        {s: line for s, line in of.items() if s >= start} for of in (record.steps, record.evaluations)
    )
    return replace(record, steps=steps, evaluations=evaluations)


def _coarser(a: str | None, b: str | None) -> str:
    """The lower of two precisions; float32 if neither record names one, since only float64 is proof."""
    known = [precision for precision in (a, b) if precision is not None]
    if not known:
        return "float32"
    return max(known, key=lambda precision: early_limit(precision))


def _unequal_precision(a: Record, b: Record) -> list[RecordFinding]:
    if None in (a.precision, b.precision) or a.precision == b.precision:
        return []
    why = f"{a.name} computed in {a.precision}, {b.name} in {b.precision}"
    if "float64" in (a.precision, b.precision):
        why += " (jax needs jax_enable_x64 for float64, and an nnx module its param_dtype)"
    return [RecordFinding("step", min(a.steps), math.nan, 0.0, why)]


def _not_comparable(
    a: Record, b: Record, of_a: dict[int, RecordLine], of_b: dict[int, RecordLine], where: str
) -> list[RecordFinding]:
    """The first line that only one record has, and the first that is not finite."""
    findings = []
    alone = sorted(set(of_a) ^ set(of_b))
    if alone:
        have, lack = (a, b) if alone[0] in of_a else (b, a)
        why = f"{where} {alone[0]} is in {have.name}'s record but not in {lack.name}'s ({len(alone)} such in all)"
        if alone[0] == 0 and min(lack.steps) == 1:
            why += f"; does {lack.name} count its steps from 1? Records count from 0"
        findings.append(RecordFinding(where, alone[0], math.nan, 0.0, why))
    for step in sorted(set(of_a) & set(of_b)):
        losses = of_a[step].loss, of_b[step].loss
        if not all(map(math.isfinite, losses)):
            why = f"the loss is not finite at {where} {step}: {a.name} {losses[0]}, {b.name} {losses[1]}"
            findings.append(RecordFinding(where, step, math.nan, 0.0, why))
            break
    return findings


def _check_control(control: Record, of: Record) -> None:
    if control.precision is not None and of.precision is not None and control.precision != of.precision:
        raise UsageError(
            f"control {control.path} is in {control.precision}, but the run that it controls is in {of.precision}"
        )
    for where, lacks in (
        ("step", set(of.steps) - set(control.steps)),
        ("evaluation", set(of.evaluations) - set(control.evaluations)),
    ):
        if lacks:
            raise UsageError(
                f"control {control.path} lacks {where} {min(lacks)} of {of.path}: a control is the same run, with "
                "its initial weights perturbed in their last places, and as many steps"
            )


def _differences(
    a: dict[int, RecordLine],
    b: dict[int, RecordLine],
    controls: list[dict[int, RecordLine]],
    precision: str,
    early: range,
) -> Differences:
    steps = [s for s in sorted(set(a) & set(b)) if math.isfinite(a[s].loss) and math.isfinite(b[s].loss)]
    of_a = [a[step].loss for step in steps]
    values = relative_differences(of_a, [b[step].loss for step in steps])
    strayed = [relative_differences(of_a, [control[step].loss for step in steps]) for control in controls]
    if precision == "float64":
        first, later = PROOF_LIMIT, proof_limits(values, strayed)
    else:
        first = early_limit(precision)
        later = control_limits(strayed, later_floor(precision)) if strayed else [math.nan] * len(steps)
    limits = [first if step in early else limit for step, limit in zip(steps, later, strict=True)]
    return Differences(steps=steps, values=values, limits=limits, controls=strayed)


def _beyond(differences: Differences, a: Record, b: Record, where: str) -> list[RecordFinding]:
    """The first step whose difference exceeds its limit; a limit of NaN judges nothing."""
    for step, value, limit in zip(differences.steps, differences.values, differences.limits, strict=True):
        if value > limit:
            of_a, of_b = (r.steps[step] if where == "step" else r.evaluations[step] for r in (a, b))
            at = f"step {step}" if where == "step" else f"the evaluation after step {step}"
            why = (
                f"the losses part at {at}: {a.name} {of_a.loss!r}, {b.name} {of_b.loss!r}, "
                f"relative difference {value:.2e}, allowed {limit:.2e}"
            )
            return [RecordFinding(where, step, value, limit, why)]
    return []


def _judged_until(steps: Differences, evaluations: Differences) -> int | None:
    """The last step before those that nothing judges, or None if all steps and evaluations are judged."""
    unjudged = [*steps.unjudged, *evaluations.unjudged]
    if not unjudged:
        return None
    return max((step for step in steps.steps if step < min(unjudged)), default=-1)


def _hints(a: Record, b: Record, precision: str) -> list[str]:
    """For each other number in both records: where it first parts by more than its rounding."""
    tolerance = PROOF_LIMIT if precision == "float64" else early_limit(precision)
    hints = []
    common = sorted(set(a.steps) & set(b.steps))
    names = sorted(set.intersection(*(set(r.steps[s].more) for r in (a, b) for s in common))) if common else []
    for name in names:
        for step in common:
            x, y = a.steps[step].more[name], b.steps[step].more[name]
            numbers = all(isinstance(value, int | float) for value in (x, y))
            alike = numbers and (math.isclose(x, y, rel_tol=tolerance) or (math.isnan(x) and math.isnan(y)))
            if numbers and not alike:
                hints.append(f"{name} first parts at step {step}: {a.name} {x!r}, {b.name} {y!r}")
                break
    return hints


def _unfinished(*records: Record) -> list[str]:
    """Warn of records that a Recorder began and did not finish: only the steps that they have are compared."""
    return [
        f"{r.path} breaks off after step {max(r.steps)}: that run did not end"
        for r in records
        if r.about and not r.finished
    ]
