"""The verdict of comparing two records, as data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from port.judging import Compared, Status
from port.records.json_numbers import to_json

_NO_CONTROL = "training makes rounding large, and no control says how large"


@dataclass(frozen=True)
class RecordFinding:
    """One place where two records are further apart than allowed.

    Attributes:
        where: "step", "evaluation" or "weights".
        step: the training step; None for weights.
        difference: the relative difference there; NaN if there is no number to compare.
        limit: the largest difference allowed.
        why: the finding in words.
    """

    where: str
    step: int | None
    difference: float
    limit: float
    why: str


@dataclass(frozen=True)
class Differences:
    """The relative difference at each step of one kind of line, with its limit.

    Attributes:
        steps: the steps that both records have, in order.
        values: |a − b| / max(|a|, |b|), one a step.
        limits: the largest difference allowed, one per step; NaN where nothing judges that step.
        controls: for each control, how far it is from the first record, one value per step.
    """

    steps: list[int]
    values: list[float]
    limits: list[float]
    controls: list[list[float]] = field(default_factory=list)

    @property
    def unjudged(self) -> list[int]:
        """The steps that nothing judges; losses equal to the last bit need no limit."""
        judged = zip(self.steps, self.values, self.limits, strict=True)
        return [step for step, value, limit in judged if math.isnan(limit) and value > 0]

    def nearest(self) -> tuple[int, float, float]:
        """(step, difference, limit) where the difference is the largest share of its limit; zeros if no step."""
        places = list(zip(self.steps, self.values, self.limits, strict=True))
        judged = [place for place in places if not math.isnan(place[2])]
        if judged:
            return max(judged, key=lambda place: place[1] / place[2])
        step, value, _ = max(places, key=lambda place: place[1], default=(0, 0.0, 0.0))
        return step, value, math.nan if self.unjudged else 0.0

    def largest(self) -> tuple[int, float] | None:
        """(step, difference) where the two are furthest apart, or None if there is no step."""
        finite = [(value, step) for step, value in zip(self.steps, self.values, strict=True) if value == value]
        if not finite:
            return None
        value, step = max(finite, key=lambda pair: pair[0])
        return step, value


@dataclass(frozen=True)
class Verdict:
    """The result of comparing two records.

    Attributes:
        status: agree, differ, or cannot be judged.
        precision: the precision in which the records were judged.
        sentence: the verdict in one sentence.
        first: the first finding, if they differ.
        findings: all findings, the first of each kind.
        steps: differences of the training losses.
        evaluations: differences of the evaluation losses.
        judged_until: the last step that could be judged; None if all could.
        hints: what else parted, and when: where to start looking.
    """

    status: Status
    precision: str
    sentence: str
    findings: list[RecordFinding]
    steps: Differences
    evaluations: Differences
    judged_until: int | None = None
    hints: list[str] = field(default_factory=list)

    @property
    def first(self) -> RecordFinding | None:
        """The earliest finding, or None."""
        return self.findings[0] if self.findings else None

    @property
    def rows(self) -> tuple[Compared, ...]:
        """The rows of the comparison: the losses of training, and of evaluation."""
        training = self._row("training loss", "step", self.steps)
        evaluation = self._row("evaluation loss", "evaluation", self.evaluations)
        return tuple(row for row in (training, evaluation) if row.count or not row.agrees)

    def _row(self, what: str, where: str, differences: Differences) -> Compared:
        """One row: the first finding, if there is one; else the step that comes closest to its limit."""
        found = next((finding for finding in self.findings if finding.where == where), None)
        step, value, limit = differences.nearest()
        if found is not None:
            step, value, limit = found.step or 0, found.difference, found.limit
        unjudged = _NO_CONTROL if found is None and differences.unjudged else ""
        return Compared(what, value, limit, f"{where} {step}", len(differences.steps), unjudged=unjudged, of=where)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready data: values that are not finite become "NaN" or "Infinity"."""
        return to_json(asdict(self))
