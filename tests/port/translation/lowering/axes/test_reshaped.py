"""Reshapes in any layout."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 4, 5)


@pytest.mark.parametrize("order", orders_of(4))
@pytest.mark.parametrize("shape", [(6, 4, 5), (2, 12, 5), (2, 3, 2, 2, 5), (2, 1, 3, 4, 5), (8, 15)])
def test_in_any_order(order: tuple[int, ...], shape: tuple[int, ...]) -> None:
    for operator in ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"):
        made, expected = lowered(operator, X, list(shape), orders=[order])
        if made.stage.layout(made.results[0]).folded is None:
            assert apart(made, expected) == 0


def test_a_flatten_of_axes_in_another_order_is_remembered() -> None:
    made, expected = lowered("aten.view.default", X, [2, -1], orders=[(0, 2, 3, 1)])
    folded = made.stage.layout(made.results[0]).folded
    assert folded is not None and (folded.axis, folded.shape, folded.order) == (1, (3, 4, 5), (1, 2, 0))
    assert (made.arrays[0].reshape(2, 4, 5, 3).transpose(0, 3, 1, 2).reshape(2, -1) == expected[0]).all()
    assert made.texts == ["y0 = x0.reshape(x0.shape[0], -1)"]


def test_lengths_that_stay_are_read_from_the_array() -> None:
    assert lowered("aten.view.default", X, [2, 3, 20])[0].texts == ["y0 = x0.reshape(x0.shape[0], x0.shape[1], -1)"]
    assert lowered("aten.view.default", X, [2, 3, 4, 5])[0].texts == []


def test_a_single_element_without_axes() -> None:
    made, expected = lowered("aten.view.default", random(1, 1), [])
    assert made.texts == ["y0 = x0.reshape(())"] and apart(made, expected) == 0
