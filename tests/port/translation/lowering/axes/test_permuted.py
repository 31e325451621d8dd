"""Permutations: the array stays unchanged unless its readers need another layout."""

from __future__ import annotations

import pytest

from port.pairs.ops import OPERATORS
from port.pairs.ops.axes import Permuted
from port.translation.lowering.axes.permuted import order_of

from ..by_hand import apart, lowered, name_of, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 4)
CALLS = [
    ("aten.permute.default", (X, [2, 0, -2])),
    ("aten.transpose.int", (X, 0, -1)),
    ("aten.mT.default", (X,)),
    ("aten.t.default", (X[0],)),
    ("aten.numpy_T.default", (X[0],)),
    ("aten.movedim.intlist", (X, [0, 1], [2, 0])),
]


@pytest.mark.parametrize("order", orders_of(3))
@pytest.mark.parametrize(("operator", "arguments"), CALLS, ids=name_of)
def test_nothing_is_moved(order: tuple[int, ...], operator: str, arguments: tuple) -> None:
    orders = [order] if arguments[0].ndim == 3 else []
    made, expected = lowered(operator, *arguments, orders=orders)
    assert made.texts == [] and apart(made, expected) == 0


@pytest.mark.parametrize("wanted", orders_of(3))
def test_a_result_that_was_given_an_order_is_moved(wanted: tuple[int, ...]) -> None:
    made, expected = lowered("aten.permute.default", X, [2, 0, 1], wanted=wanted, orders=[(1, 0, 2)])
    assert apart(made, expected) == 0
    assert made.layouts == [wanted]
    assert len(made.texts) == (wanted != (2, 1, 0)) and made.transposes == 0


def test_the_order_is_that_of_the_expression() -> None:
    assert order_of("jnp.transpose(input, dims)", 3, {"dims": (1, 2, 0)}) == (1, 2, 0)
    assert order_of("jnp.swapaxes(input, dim0, dim1)", 4, {"dim0": 1, "dim1": -1}) == (0, 3, 2, 1)
    assert order_of("input.T", 3, {}) == (2, 1, 0)


def test_each_of_them_is_here() -> None:
    assert {pair.aten for pair in OPERATORS if pair.axes == Permuted()} == {
        operator.rpartition(".")[0] for operator, _ in CALLS
    }
