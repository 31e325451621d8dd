"""The data of the figures: both sides' losses, their difference, the limit and the controls, by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from port.records import Differences, RecordLine
from port.report.colours import smallest_drawn
from port.report.page.subject import Subject
from port.report.page.thinning import kept

Numbers = list[float | None]


@dataclass(frozen=True)
class Curves:
    """The data of one figure, by index; None where there is no finite number.

    Attributes:
        steps: all steps that either side has, in order.
        sides: both sides' values.
        differences: their relative difference.
        limits: the limit of the difference; None at steps that nothing judges.
        band: the largest distance of any control up to each step; empty without controls.
        of: the number of steps before thinning.
    """

    steps: list[int]
    sides: tuple[Numbers, Numbers]
    differences: Numbers
    limits: Numbers
    band: Numbers
    of: int

    @property
    def is_thinned(self) -> bool:
        """Whether some steps are left out."""
        return len(self.steps) < self.of

    def thinned(self, most: int, always: Sequence[int] = ()) -> Curves:
        """Return the curves with about ``most`` steps, always with extremes, ends and the steps in ``always``."""
        columns = [column for column in (*self.sides, self.differences, self.band) if column]
        wanted = set(always)
        places = kept(columns, most, [place for place, step in enumerate(self.steps) if step in wanted])

        def pick(column: Numbers) -> Numbers:
            return [column[place] for place in places] if column else []

        return replace(
            self,
            steps=[self.steps[place] for place in places],
            sides=(pick(self.sides[0]), pick(self.sides[1])),
            differences=pick(self.differences),
            limits=pick(self.limits),
            band=pick(self.band),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the data for the page's script; a constant limit is one number."""
        return {
            "steps": self.steps,
            "a": self.sides[0],
            "b": self.sides[1],
            "differences": self.differences,
            "limits": self.limits[0] if len(set(self.limits)) == 1 else self.limits,
            "band": self.band,
        }


def losses(subject: Subject) -> Curves:
    """Return both sides' training losses and their difference."""
    verdict = subject.verdict
    return _curves(subject, "steps", verdict.steps if verdict is not None else Differences([], [], []))


def evaluations(subject: Subject) -> Curves:
    """Return both sides' losses over the test split and their difference."""
    verdict = subject.verdict
    return _curves(subject, "evaluations", verdict.evaluations if verdict is not None else Differences([], [], []))


def figure_of_losses(subject: Subject, most: int) -> tuple[dict[str, Any], Curves]:
    """Return the loss figure for the page's script, with about ``most`` steps, and the curves it draws."""
    first = subject.verdict.first if subject.verdict is not None else None
    marked = first.step if first is not None else None
    drawn = losses(subject).thinned(most, [] if marked is None else [marked])
    tested = evaluations(subject).thinned(max(most // 4, 30), [] if marked is None else [marked])
    return {
        "kind": "losses",
        "labels": list(subject.labels),
        **drawn.as_json(),
        "evaluations": tested.as_json(),
        "first": marked,
        "floor": smallest_drawn(subject.precision),
    }, drawn


def not_finite(subject: Subject) -> list[str]:
    """Return a sentence for each side whose loss is not finite at some step."""
    sentences = []
    for label, record in subject.records:
        lines = [line for line in record.steps.values() if not math.isfinite(line.loss)]
        if lines:
            first = lines[0].step
            where = f"at step {first}" if len(lines) == 1 else f"at {len(lines)} steps, first at {first}"
            sentences.append(f"{label}'s loss is not finite {where} ({lines[0].loss}): a gap in its curve.")
    return sentences


def _curves(subject: Subject, lines: str, differences: Differences) -> Curves:
    of_sides: list[dict[int, RecordLine]] = [{} if side is None else getattr(side, lines) for side in subject.sides]
    steps = sorted(set(of_sides[0]) | set(of_sides[1]))
    furthest = accumulate((max(values) for values in zip(*differences.controls, strict=True)), max)
    a, b = ([_finite(side[step].loss if step in side else None) for step in steps] for side in of_sides)
    by_step = dict(zip(differences.steps, differences.values, strict=True))
    limits = dict(zip(differences.steps, differences.limits, strict=True))
    band = dict(zip(differences.steps, furthest, strict=False))
    return Curves(
        steps=steps,
        sides=(a, b),
        differences=[_finite(by_step.get(step)) for step in steps],
        limits=[_finite(limits.get(step)) for step in steps],
        band=[_finite(band.get(step)) for step in steps] if band else [],
        of=len(steps),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
