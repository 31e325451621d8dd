"""Elementwise operators with operands in different layouts."""

from __future__ import annotations

import pytest
import torch

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("order", orders_of(3))
def test_operands_of_two_orders(order: tuple[int, ...]) -> None:
    made, expected = lowered("aten.mul.Tensor", random(2, 3, 4), random(2, 3, 4, seed=1), orders=[order, (2, 0, 1)])
    assert apart(made, expected) == 0
    assert made.transposes == (order != (2, 0, 1))


@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (3, 1), (2, 1, 1)])
def test_fewer_axes_than_the_other(shape: tuple[int, ...]) -> None:
    for order in orders_of(3):
        made, expected = lowered("aten.add.Tensor", random(2, 3, 4), random(*shape, seed=1), orders=[order])
        assert apart(made, expected) == 0
        assert made.layouts == [order]


def test_what_is_the_array_itself_is_not_written() -> None:
    for operator in ("aten.clone.default", "aten.positive.default", "aten.contiguous.default"):
        made, expected = lowered(operator, random(2, 3), orders=[(1, 0)])
        assert made.texts == [] and apart(made, expected) == 0
    made, expected = lowered("aten._to_copy.default", random(2, 3), dtype=torch.float32, orders=[(1, 0)])
    assert made.texts == ["y0 = x0.astype(jnp.float32)"] and apart(made, expected) == 0


def test_a_factor_of_one_is_not_written() -> None:
    made, _ = lowered("aten.addcmul.default", random(3), random(3), random(3))
    assert made.texts == ["y0 = x0 + x1 * x2"]
    made, _ = lowered("aten.addcmul.default", random(3), random(3), random(3), value=2)
    assert made.texts == ["y0 = x0 + 2 * x1 * x2"]
