"""Matrix products with matrices that are stored transposed."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


A, B = random(3, 4), random(4, 5, seed=1)


@pytest.mark.parametrize("left", orders_of(2))
@pytest.mark.parametrize("right", orders_of(2))
def test_a_matrix_that_lies_transposed(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    for operator in ("aten.mm.default", "aten.matmul.default"):
        made, expected = lowered(operator, A, B, orders=[left, right])
        assert apart(made, expected) < 1e-14
        assert made.texts[-1].endswith("@ x1.T" if right == (1, 0) else "@ x1")
    weight = B.T.contiguous()
    made, expected = lowered("aten.linear.default", A, weight, random(5, seed=2), orders=[left, right])
    assert apart(made, expected) < 1e-14
    assert made.texts[-1].endswith("@ x1 + x2" if right == (1, 0) else "@ x1.T + x2")


@pytest.mark.parametrize("order", orders_of(3))
def test_the_rows_of_a_linear_layer_come_in_any_order(order: tuple[int, ...]) -> None:
    made, expected = lowered("aten.linear.default", random(2, 3, 4), random(5, 4, seed=1), orders=[order])
    assert apart(made, expected) < 1e-14
    assert made.transposes == (order[-1] != 2)


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("beta", [0, 1, 3])
def test_factors_of_one_and_of_nothing_are_not_written(alpha: int, beta: int) -> None:
    made, expected = lowered("aten.addmm.default", random(5), A, B, beta=beta, alpha=alpha)
    assert apart(made, expected) < 1e-14
    product = {1: "x1 @ x2", 2: "2 * (x1 @ x2)"}[alpha]
    assert made.texts == [{0: f"y0 = {product}", 1: f"y0 = x0 + {product}", 3: f"y0 = 3 * x0 + {product}"}[beta]]


def test_batches_are_in_torchs_order() -> None:
    operands = random(2, 3, 4), random(2, 4, 5, seed=1)
    made, expected = lowered("aten.bmm.default", *operands, orders=[(0, 2, 1), (2, 0, 1)])
    assert apart(made, expected) < 1e-14 and made.transposes == 2
