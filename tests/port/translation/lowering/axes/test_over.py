"""Operators that reduce or select axes."""

from __future__ import annotations

import pytest

from ..by_hand import apart, lowered, name_of, orders_of, random

pytestmark = pytest.mark.usefixtures("float64")


X = random(2, 3, 4)


@pytest.mark.parametrize("order", orders_of(3))
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aten.sum.dim_IntList", (X, [0, -1])),
        ("aten.mean.dim", (X, [1], True)),
        ("aten.amax.default", (X, [2])),
        ("aten.max.dim", (X, 1)),
        ("aten.select.int", (X, 1, -1)),
        ("aten.unbind.int", (X, -2)),
        ("aten.squeeze.dim", (X[:, :1], 1)),
        ("aten.squeeze.default", (X[:1, :, :1],)),
        ("aten.squeeze.dims", (X[:, :1], [0, 1])),
        ("aten.sum.default", (X,)),
    ],
    ids=name_of,
)
def test_what_is_left_keeps_its_order(order: tuple[int, ...], operator: str, arguments: tuple) -> None:
    made, expected = lowered(operator, *arguments, orders=[order])
    assert apart(made, expected) < 1e-14
    assert made.transposes == 0


@pytest.mark.parametrize(
    ("operator", "arguments", "text"),
    [
        ("aten.select.int", (X, 1, 2), "y0 = x0[:, 2]"),
        ("aten.select.int", (X, -1, -1), "y0 = x0[:, :, -1]"),
        ("aten.unbind.int", (X, 0), "y0, y1, = jnp.unstack(x0, axis=0)"),
        ("aten.squeeze.dim", (X[:, :, :1], -1), "y0 = jnp.squeeze(x0, -1)"),
    ],
    ids=name_of,
)
def test_as_a_person_writes_it(operator: str, arguments: tuple, text: str) -> None:
    assert lowered(operator, *arguments)[0].texts == [text]


def test_an_axis_that_is_longer_than_one_stays() -> None:
    made, expected = lowered("aten.squeeze.dim", X, 1, orders=[(1, 2, 0)])
    assert made.texts == [] and apart(made, expected) == 0


def test_the_other_axis_would_be_seen() -> None:
    """The comparison of these tests sees an axis that is not renumbered."""
    made, expected = lowered("aten.unbind.int", random(3, 3), 0, orders=[(1, 0)])
    made.arrays[:] = [array[::-1] for array in made.arrays]
    assert apart(made, expected) > 0.1
