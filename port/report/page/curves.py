"""The figures' data: the losses of both sides, their difference, the limit and the controls, step by step."""

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
    """What a figure draws, by place; None where there is no finite number.

    Attributes:
        steps: the steps that either side has, in order.
        sides: both sides' numbers.
        differences: their relative difference.
        limits: what it may be; None where nothing judges that step.
        band: how far the furthest control has strayed so far; empty without controls.
        of: how many steps there were before they were thinned.
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
        """The same with some ``most`` steps, extremes, ends and the steps ``always`` among them."""
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
        """For the page's script; a limit that stays the same is one number."""
        return {
            "steps": self.steps,
            "a": self.sides[0],
            "b": self.sides[1],
            "differences": self.differences,
            "limits": self.limits[0] if len(set(self.limits)) == 1 else self.limits,
            "band": self.band,
        }


def losses(subject: Subject) -> Curves:
    """Both sides' training losses, and how far they are apart."""
    verdict = subject.verdict
    return _curves(subject, "steps", verdict.steps if verdict is not None else Differences([], [], []))


def evaluations(subject: Subject) -> Curves:
    """Both sides' losses over the test split, and how far they are apart."""
    verdict = subject.verdict
    return _curves(subject, "evaluations", verdict.evaluations if verdict is not None else Differences([], [], []))


def figure_of_losses(subject: Subject, most: int) -> tuple[dict[str, Any], Curves]:
    """The figure of the losses as the page's script takes it, of some ``most`` steps; and the curves that it draws."""
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
    """For each side whose loss is somewhere not finite, a sentence."""
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
