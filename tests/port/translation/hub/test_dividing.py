"""Numbers of a configuration are divided by what divides them."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.hub.dividing import divided, divided_at_most, divisors, is_square, numbers


@pytest.mark.parametrize(
    "value, found",
    [(12, [12]), ([3, 6], [3, 6]), ((2, 4), [2, 4]), (True, []), (None, []), (0.5, []), ([], []), ([1, None], [])],
)
def test_whole_numbers(value: Any, found: list[int]) -> None:
    assert numbers(value) == found


@pytest.mark.parametrize(
    "value, most, least, found",
    [
        (768, 32, 4, 24),
        (1407, 128, 4, 21),  # 3 · 7 · 67, of which 67 is the largest factor that is not above 128
        (71, 71, 2, 71),  # a prime leaves 1, which is less than is asked for
        (12, 5, 2, 3),
        (2, 64, 2, 2),
        (1, 64, 2, 1),  # less than the least stays
        ([3, 6, 12], 12, 2, [3, 6, 12]),
        ((8, 16), 4, 2, (2, 4)),
    ],
)
def test_by_at_most(value: Any, most: int, least: int, found: Any) -> None:
    assert divided_at_most(value, most, least) == found


def test_what_divides_all() -> None:
    fields = {"a": 24, "b": [36, 60]}
    assert divisors(fields, lambda by: by < 12) == [6, 4, 3, 2, 1]
    assert divisors(fields, lambda by: by > 12) == [1]
    assert divisors({}, lambda by: True) == [1]
    assert {name: divided(value, 12) for name, value in fields.items()} == {"a": 2, "b": [3, 5]}


def test_squares() -> None:
    assert [one for one in range(30) if is_square(one)] == [0, 1, 4, 9, 16, 25]
