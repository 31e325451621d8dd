"""Axes of length 1 that are repeated."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("order", orders_of(3))
@pytest.mark.parametrize("size", [(2, 3, 4), (2, -1, -1), (5, 2, -1, 4)])
def test_in_any_order(order: tuple[int, ...], size: tuple[int, ...]) -> None:
    made, expected = lowered("aten.expand.default", random(2, 1, 4), list(size), orders=[order])
    assert apart(made, expected) == 0


def test_what_stays_as_it_is_is_not_written() -> None:
    made, expected = lowered("aten.expand.default", random(2, 1), [2, -1], orders=[(1, 0)])
    assert made.texts == [] and apart(made, expected) == 0


def test_as_a_person_writes_it() -> None:
    made, _ = lowered("aten.expand.default", random(2, 1), [-1, 3], orders=[(1, 0)])
    assert made.texts == ["y0 = jnp.broadcast_to(x0, (3, x0.shape[-1]))"]
