"""What one array is of another, told from the two."""

from __future__ import annotations

import numpy as np
import pytest

from port.parity.diagnose.causes.between import relations
from port.parity.sides.calls import RecordedCall

GENERATOR = np.random.default_rng(5)
A = GENERATOR.normal(size=(3, 4, 5))
BIAS = GENERATOR.normal(size=5)
SKIP = GENERATOR.normal(size=A.shape)
CALLS = [RecordedCall("skip", 0, (), {}, SKIP)]


def kinds(flax: np.ndarray) -> list[str]:
    return [found.kind for found in relations(A, flax, 1e-10, calls=CALLS, weights={"fc.bias": BIAS})]


@pytest.mark.parametrize(
    ("flax", "kind"),
    [
        (A * 5**-0.5, "scale"),
        (-A, "scale"),
        (np.where(GENERATOR.random(A.shape) < 0.3, 0, A / 0.7), "dropout-left-on"),
        (A - BIAS, "bias-missing"),
        (A + BIAS, "added-twice"),
        (A - SKIP, "addition-missing"),
        (SKIP, "step-missing"),
        (A[:, ::-1], "axis-flipped"),
        (np.roll(A, 1, 2), "axis-shifted"),
        (A[:, [1, 0, 2, 3]], "axis-order"),
    ],
)
def test_each_relation_is_told(flax: np.ndarray, kind: str) -> None:
    assert kinds(flax) == [kind]


@pytest.mark.parametrize("flax", [A, A + 1e-3 * SKIP**2, A**2, GENERATOR.normal(size=A.shape), A[:2], A * np.nan])
def test_nothing_is_told_of_anything_else(flax: np.ndarray) -> None:
    assert kinds(flax) == []


def test_indices_that_are_off_by_one() -> None:
    indices = np.arange(12).reshape(3, 4)
    (found,) = relations(indices, indices + 1, 1e-10, calls=[], weights={})
    assert found.kind == "position-offset"
    assert "+1" in found.why
    assert not list(relations(indices, indices**2, 1e-10, calls=[], weights={}))
