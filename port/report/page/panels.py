"""The other numbers that both sides recorded: one panel for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from port.records import RecordLine
from port.records.limits import relative_differences
from port.report.page.curves import Curves
from port.report.page.subject import Subject

MOST_PANELS = 12
"""How many numbers get a figure; further ones appear only in tables."""
NAMES = {"grad_norm": "gradient norm", "lr": "learning rate"}
NOT_COMPARED = frozenset({"duration"})  # a time depends on the machine


@dataclass(frozen=True)
class Panel:
    """One recorded number, on both sides.

    Attributes:
        name: the name that readers see.
        where: "step" or "evaluation".
        curves: both sides' values and their relative difference.
        whole: whether the values are integers.
    """

    name: str
    where: str
    curves: Curves
    whole: bool

    @property
    def only_counts(self) -> bool:
        """Whether it is a count that is equal on both sides, which needs no figure."""
        a, b = self.curves.sides
        return self.whole and a == b and all(x is None or y is None or x <= y for x, y in pairwise(a))

    def as_json(self, subject: Subject, most: int) -> dict[str, Any]:
        """Return the figure for the page's script, with about ``most`` steps."""
        return {
            "kind": "number",
            "name": self.name,
            "labels": list(subject.labels),
            "whole": self.whole,
            "where": self.where,
            **self.curves.thinned(most).as_json(),
        }


def panels(subject: Subject) -> list[Panel]:
    """Return a panel for every number except the loss that both sides recorded, those of steps first."""
    found = []
    for where, lines in (("step", "steps"), ("evaluation", "evaluations")):
        sides: list[Mapping[int, RecordLine]] = [{} if side is None else getattr(side, lines) for side in subject.sides]
        names = [_numbers(side) for side in sides]
        found += [_panel(name, where, sides) for name in names[0] if name in names[1] and name not in NOT_COMPARED]
    return found


def _numbers(lines: Mapping[int, RecordLine]) -> list[str]:
    """Return the names that have a number on some line, in the record's order."""
    return list(dict.fromkeys(name for line in lines.values() for name, value in line.more.items() if _number(value)))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _panel(name: str, where: str, sides: list[Mapping[int, RecordLine]]) -> Panel:
    steps = sorted(set(sides[0]) | set(sides[1]))
    a, b = ([_value(side.get(step), name) for step in steps] for side in sides)
    common = [place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x is not None and y is not None]
    apart = relative_differences([float(a[place] or 0) for place in common], [float(b[place] or 0) for place in common])
    differences: list[float | None] = [None] * len(steps)
    for place, value in zip(common, apart, strict=True):
        differences[place] = value
    whole = all(isinstance(value, int) for value in (*a, *b) if value is not None)
    return Panel(
        name=NAMES.get(name, name.replace("_", " ")),
        where=where,
        curves=Curves(steps, (a, b), differences, [], [], len(steps)),
        whole=whole,
    )


def _value(line: RecordLine | None, name: str) -> float | None:
    value: Any = None if line is None else line.more.get(name)
    return value if _number(value) and math.isfinite(value) else None
