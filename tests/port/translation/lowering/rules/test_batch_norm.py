"""Batch norm with explicit running statistics: the normalised input and the updated statistics."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, random

pytestmark = pytest.mark.usefixtures("float64")
NAME = "aten._native_batch_norm_legit_functional.default"


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 2, 3)])
def test_in_training(order: tuple[int, ...], affine: bool) -> None:
    weight, bias = (random(3, seed=1), random(3, seed=2)) if affine else (None, None)
    statistics = random(3, seed=3), random(3, seed=4).exp()
    x = random(4, 3, 5, 6)
    made, expected = lowered(NAME, x, weight, bias, *statistics, True, 0.2, 1e-3, training=True, orders=[order])
    assert apart(made, expected) < 1e-13
    assert made.layouts[0] == (0, 2, 3, 1)
    assert made.transposes == (order != (0, 2, 3, 1))


def test_a_spread_divided_by_n_would_be_seen() -> None:
    x, statistics = random(2, 3, 2), (random(3, seed=3), random(3, seed=4).exp())
    made, expected = lowered(NAME, x, None, None, *statistics, True, 0.2, 1e-3, training=True)
    made.arrays[4] = 0.8 * statistics[1].numpy() + 0.2 * x.numpy().var((0, 2))
    assert apart(made, expected) > 1e-3


def test_statistics_that_are_written_in_evaluation_are_refused() -> None:
    statistics = random(3, seed=3), random(3, seed=4).exp()
    with pytest.raises(AssertionError, match="it updates running statistics in evaluation"):
        lowered(NAME, random(4, 3, 5), None, None, *statistics, False, 0.2, 1e-3)
