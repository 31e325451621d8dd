"""Operators whose results have one axis more."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 4)


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -2])
@pytest.mark.parametrize("order", orders_of(3))
def test_a_new_axis_stands_behind_the_one_that_torch_has_before_it(order: tuple[int, ...], dim: int) -> None:
    made, expected = lowered("aten.unsqueeze.default", X, dim, orders=[order])
    assert apart(made, expected) == 0 and made.transposes == 0
    made, expected = lowered("aten.stack.default", [X, random(2, 3, 4, seed=1)], dim, orders=[order, order])
    assert apart(made, expected) == 0 and made.transposes == 0


def test_as_a_person_writes_it() -> None:
    assert lowered("aten.unsqueeze.default", X, 1)[0].texts == ["y0 = jnp.expand_dims(x0, 1)"]
    assert lowered("aten.unsqueeze.default", X, 3)[0].texts == ["y0 = jnp.expand_dims(x0, -1)"]
    assert lowered("aten.stack.default", [X, X])[0].texts == ["y0 = jnp.stack([x0, x1], axis=0)"]
