"""How fast a run was, from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from port.records import Record, RecordLine, first_step_seconds, steps_per_second


def record(seconds: list[float | None], *, evaluations: Any = (), end: float | None = None) -> Record:
    """Steps recorded at those seconds; evaluations as (step, seconds, duration)."""
    return Record(
        path=Path("record.jsonl"),
        steps={step: RecordLine(step, 1.0, at, {}) for step, at in enumerate(seconds)},
        evaluations={step: RecordLine(step, 1.0, at, {"duration": duration}) for step, at, duration in evaluations},
        seconds=end,
    )


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (record([3.0, 3.5, 4.0]), 2.0),  # 2 steps in 1 s; the first one's 3 s are the compiler's
        (record([3.0, 3.5, 4.0], end=5.0), 1.0),  # until the device had done all of them
        (record([3.0, 3.5, 8.0], evaluations=[(1, 7.5, 4.0)]), 2.0),
        (record([3.0, 3.5, 4.0], evaluations=[(2, 8.0, 4.0)], end=8.0), 2.0),
        (record([3.0, 3.5, 4.0], evaluations=[(2, 8.0, 4.0)]), 2.0),  # after the last step: not within
        (record([3.0, 3.5, 4.0], evaluations=[(0, 2.5, 2.0)]), 2.0),  # before the first one
        (record([3.0, 3.5, 4.0], evaluations=[(0, 3.2, None)]), 2.0),
        (record([3.0, 3.5, 4.0], evaluations=[(0, 3.2, "long")]), 2.0),
        (record([3.0, 3.5, 4.0], evaluations=[(0, None, 4.0)]), 2.0),
        (record([3.0]), None),
        (record([]), None),
        (record([3.0, 3.0]), None),  # no time to divide by
        (record([None, None]), None),
        (record([3.0, None]), None),
    ],
)
def test_steps_per_second(run: Record, expected: float | None) -> None:
    assert steps_per_second(run) == expected


@pytest.mark.parametrize(("run", "expected"), [(record([3.0, 4.0]), 3.0), (record([None]), None), (record([]), None)])
def test_first_step_seconds(run: Record, expected: float | None) -> None:
    assert first_step_seconds(run) == expected
