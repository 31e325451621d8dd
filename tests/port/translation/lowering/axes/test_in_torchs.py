"""Operators whose axes must be in torch's order."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("order", orders_of(2))
def test_operands_are_brought_to_it(order: tuple[int, ...]) -> None:
    made, expected = lowered("aten.tril.default", random(3, 4), orders=[order])
    assert apart(made, expected) == 0
    assert made.transposes == (order != (0, 1)) and made.layouts == [(0, 1)]


def test_whose_dtype_alone_is_asked_for_lies_as_it_likes() -> None:
    made, expected = lowered("aten.new_zeros.default", random(3, 4), [2, 5], orders=[(1, 0)])
    assert made.texts == ["y0 = jnp.zeros((2, 5), x0.dtype)"] and apart(made, expected) == 0
