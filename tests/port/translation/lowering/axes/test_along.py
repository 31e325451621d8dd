"""Operators along an axis, in any layout."""

from __future__ import annotations

import pytest
import torch

from ..by_hand import apart, lowered, name_of, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 4)


@pytest.mark.parametrize("order", orders_of(3))
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aten.softmax.int", (X, -2)),
        ("aten.flip.default", (X, [0, 2])),
        ("aten.slice.Tensor", (X, 1, 0, 2)),
        ("aten.slice.Tensor", (X, -1, 1, 4, 2)),
        ("aten.split.Tensor", (X, 2, -1)),
        ("aten.split.Tensor", (X, 3, 2)),
        ("aten.split_with_sizes.default", (X, [1, 2], 1)),
        ("aten.chunk.default", (X, 2, 1)),
        ("aten.select_scatter.default", (X, random(2, 4, seed=1), 1, 2)),
    ],
    ids=name_of,
)
def test_the_axis_is_numbered_as_the_array_has_it(order: tuple[int, ...], operator: str, arguments: tuple) -> None:
    made, expected = lowered(operator, *arguments, orders=[order])
    assert apart(made, expected) < 1e-15
    assert made.layouts == [order] * len(expected)


@pytest.mark.parametrize("order", orders_of(3))
def test_several_arrays_are_brought_to_one_order(order: tuple[int, ...]) -> None:
    parts = [random(2, 3, 4), random(2, 5, 4, seed=1), random(2, 1, 4, seed=2)]
    made, expected = lowered("aten.cat.default", parts, 1, orders=[order, order, (2, 1, 0)])
    assert apart(made, expected) == 0
    assert made.transposes == (order != (2, 1, 0))
    source = random(2, 2, 4, seed=3)
    made, expected = lowered("aten.slice_scatter.default", X, source, 1, 1, orders=[order, order])
    assert apart(made, expected) == 0 and made.transposes == 0


@pytest.mark.parametrize(
    ("operator", "arguments", "text"),
    [
        ("aten.slice.Tensor", (X, 1, 1, 9223372036854775807), "y0 = x0[:, 1:]"),
        ("aten.slice.Tensor", (X, 2, 0, -1, 2), "y0 = x0[:, :, :-1:2]"),
        ("aten.slice_scatter.default", (X, random(2, 1, 4), 1, 0, 1), "y0 = x0.at[:, :1].set(x1)"),
        ("aten.select_scatter.default", (X, random(3, 4), 0, -1), "y0 = x0.at[-1].set(x1)"),
        ("aten.cat.default", ([X, X], -1), "y0 = jnp.concatenate([x0, x1], axis=-1)"),
        ("aten.split.Tensor", (X, 2, 2), "y0, y1, = jnp.split(x0, 2, axis=-1)"),
        ("aten.split.Tensor", (X, 2, 1), "y0, y1, = jnp.split(x0, [2], axis=1)"),
        ("aten.split_with_sizes.default", (random(2, 7), [1, 2, 4], 1), "y0, y1, y2, = jnp.split(x0, [1, 3], axis=-1)"),
        ("aten.chunk.default", (random(2, 6), 4, 1), "y0, y1, y2, = jnp.split(x0, [2, 4], axis=-1)"),
    ],
    ids=name_of,
)
def test_as_a_person_writes_it(operator: str, arguments: tuple, text: str) -> None:
    made, expected = lowered(operator, *arguments)
    assert made.texts == [text]
    assert apart(made, expected) == 0


def test_a_whole_axis_is_not_cut() -> None:
    for operator, arguments in (("aten.slice.Tensor", (X, 1, 0, 3)), ("aten.split.Tensor", (X, 5, 1))):
        made, expected = lowered(operator, *arguments, orders=[(2, 0, 1)])
        assert made.texts == [] and apart(made, expected) == 0


def test_an_empty_list_among_tables_is_left_out() -> None:
    made, expected = lowered("aten.cat.default", [torch.zeros(0, dtype=torch.float64), X, X], 1)
    assert made.texts == ["y0 = jnp.concatenate([x1, x2], axis=1)"] and apart(made, expected) == 0
