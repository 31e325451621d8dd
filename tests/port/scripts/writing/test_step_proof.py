"""Where two sides part, it is a difference, unless the original strays from itself as far; never from the start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from port.judging import Status
from port.scripts.writing.step_proof import StepProof, Strayed, apart

SAME = StepProof(((2.0, 2.0), (1.0, 1.0 + 1e-14)), 1e-14)
PARTED = StepProof(((2.0, 2.0), (1.0, 1.0), (0.5, 0.5 + 1e-7)), 1e-5)
CONTROLS = (Strayed((0.0, 1e-12, 1e-7), 1e-5), Strayed((1e-15, 1e-12, 3e-8), 2e-6))


def test_what_is_within_the_limits_agrees() -> None:
    assert SAME.status is Status.AGREE and not SAME.why
    assert replace(SAME, controls=CONTROLS[:1]).status is Status.AGREE


def test_what_rounding_explains_cannot_be_judged() -> None:
    assert PARTED.status is Status.DIFFER
    judged = replace(PARTED, controls=CONTROLS)
    assert judged.status is Status.CANNOT_JUDGE and judged.judged_until == 1
    assert "agree up to update 1" in judged.why and "strays from itself by 1.0e-07 and 1.0e-05" in judged.why
    assert judged.as_data()["why"] == judged.why


@pytest.mark.parametrize(
    "fault",
    [
        replace(PARTED, losses=((2.0, 2.0), (1.0, 1.0), (0.5, 0.5 + 1e-5))),  # further than ten times the controls
        replace(PARTED, losses=((2.0, 2.0), (1.0, 1.0 + 1e-9), (0.5, 0.5))),  # before they stray
        replace(PARTED, losses=((2.0, 2.0 + 1e-7), (1.0, 1.0), (0.5, 0.5))),  # before any update
        replace(PARTED, weights=1e-3),
        replace(PARTED, losses=((2.0, 2.0), (1.0, 1.0), (0.5, float("nan")))),
    ],
)
def test_what_it_does_not_explain_differs(fault: StepProof) -> None:
    assert replace(fault, controls=CONTROLS).status is Status.DIFFER


def test_draws_that_are_not_shared_are_said() -> None:
    drawn = replace(SAME, unshared="it draws by numpy")
    assert drawn.status is Status.CANNOT_JUDGE and drawn.why.endswith("do not share: it draws by numpy")


def test_what_is_not_finite_is_far() -> None:
    assert apart([(1.0, 1.5), (float("inf"), 1.0)]) == [0.5, float("inf")]
