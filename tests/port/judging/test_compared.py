"""The row that every comparison gives, in words and with its status."""

from __future__ import annotations

import math

import pytest

from port.judging import Compared, Status

NAN = math.nan


@pytest.mark.parametrize(
    ("row", "status", "text"),
    [
        (Compared("outputs", 1e-12, 1e-10, "y", 3), Status.AGREE, "outputs: 1.0e-12 ≤ 1e-10 (3 tensors)"),
        (Compared("outputs", 1e-2, 1e-10, "y", 3), Status.DIFFER, "outputs: 1.0e-02 > 1e-10 (3 tensors) at y"),
        (Compared("loss", NAN, 1e-9, "step 4", 9, of="step"), Status.DIFFER, "loss: nan > 1e-09 (9 steps) at step 4"),
        (Compared("loss", 1e-5, NAN, "step 4", 9, of="step"), Status.CANNOT_JUDGE, "loss: 1.0e-05 (9 steps)"),
        (
            Compared("outputs", 0.0, 1e-10, "", 3, 1, "y strays"),
            Status.CANNOT_JUDGE,
            "outputs: 0.0e+00 ≤ 1e-10 (3 tensors, 1 of them zero but for rounding); cannot be judged: y strays",
        ),
        (Compared("weights", 0.0, 0.0, "", 3), Status.AGREE, "weights: equal to the last bit (3 tensors)"),
        (Compared("weights", 1e-16, 0.0, "w", 1), Status.DIFFER, "weights: 1.0e-16 > 0e+00 (1 tensor) at w"),
        (Compared("outputs", 1.0, 1e-10, "y", 3, unjudged="z strays"), Status.DIFFER, None),
    ],
)
def test_a_row_has_a_status_and_words(row: Compared, status: Status, text: str | None) -> None:
    assert row.status is status
    assert row.agrees == (status is Status.AGREE)
    assert text is None or str(row) == text
