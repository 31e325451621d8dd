"""The lengths that are tried for a condition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from port.translation.frontend.input_lengths import InputLengths, holds
from port.translation.verify.settle_lengths import beyond


def sides(condition: str, **example: int) -> Any:
    return SimpleNamespace(lengths=InputLengths((("n", 3, "h", "w"),), (condition,)), example=example)


@pytest.mark.parametrize("condition", ["h <= 240", "h + w <= 500", "h % 7 == 0", "n * h * w >= 9"])
def test_none_meets_the_condition_and_none_is_heavy(condition: str) -> None:
    given = sides(condition, n=2, h=210, w=200)
    tried = list(beyond(condition, given))
    assert tried and not any(holds(condition, sizes) for sizes in tried)
    assert max(given.lengths.elements(sizes) for sizes in tried) <= 2 * 2 * 3 * 210 * 200


def test_small_inputs_are_tried_where_a_condition_names_a_length_far_away() -> None:
    tried = list(beyond("h <= 1024", sides("h <= 1024", n=1, h=8, w=2)))
    assert {"n": 1, "h": 1025, "w": 2} in tried


def test_images_are_not_tried_as_long_as_a_number_in_a_condition() -> None:
    condition = "400 * (h - 63) * (w - 63) >= 2"
    tried = list(beyond(condition, sides(condition, n=2, h=64, w=64)))
    assert {"n": 2, "h": 63, "w": 64} in tried
    assert {"n": 2, "h": 400, "w": 63} not in tried
