"""Statements that name lengths, read from the original's source."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from port.translation.structure.length_statements import REST, LengthStatement, length_statements


def whole(x: Tensor) -> Any:
    B, T, C = x.shape
    return B, T, C


def by_calls(x: Tensor) -> Any:
    n = x.size(0)
    h, w = x.size()[-2:]
    c, last = x.shape[1], x.size(-1)
    return n, h, w, c, last


def partly(x: Tensor) -> Any:
    b, c, *_ = x.shape
    return b, c


def a_list(x: Tensor) -> Any:
    sizes = x.shape[:-1]
    return sizes[0]


def given_anew(x: Tensor, twice: bool) -> Any:
    y = x * 2
    y = y + 1
    if twice:
        n, t = y.shape
        return n * t
    return y


def none_of_these(x: Tensor, more: list[Tensor]) -> Any:
    n, *rest = x.shape
    a, a = x.shape  # noqa: RUF059
    k = more[0].shape[0]
    m, l = x.size(0), k.size(0)  # noqa: E741
    for each in more:
        b, t = each.shape
    return n, rest, m, l, b, t, TENSOR.shape[0]


TENSOR: Any = None


def read(function: Any) -> list[tuple[str, tuple[str, ...], Any]]:
    return [(each.tensor, each.names, each.axes) for each in length_statements(function)]


def test_what_is_read() -> None:
    assert read(whole) == [("x", ("B", "T", "C"), slice(None))]
    assert read(by_calls) == [
        ("x", ("n",), (0,)),
        ("x", ("h", "w"), slice(-2, None)),
        ("x", ("c", "last"), (1, -1)),
    ]
    assert read(partly) == [("x", ("b", "c", REST), slice(None))]


def test_a_list_is_read_by_its_items() -> None:
    (statement,) = length_statements(a_list)
    assert statement.is_list and statement.names == ("sizes",)
    assert statement.axes_of(3) == (("sizes[0]", 0), ("sizes[1]", 1))


def test_others_are_left() -> None:
    assert read(none_of_these) == []


def test_where_the_tensor_was_given_its_value() -> None:
    (statement,) = length_statements(given_anew)
    first = given_anew.__code__.co_firstlineno
    assert statement.assigned_at == first + 2  # the second line that assigns it
    assert statement.block == (first + 4, first + 5) and not statement.is_outermost
    (of_parameter,) = length_statements(whole)
    assert of_parameter.assigned_at is None and of_parameter.is_outermost


@pytest.mark.parametrize(
    ("function", "number", "rank", "axes"),
    [
        (whole, 0, 3, (("B", 0), ("T", 1), ("C", 2))),
        (whole, 0, 4, None),
        (by_calls, 1, 4, (("h", 2), ("w", 3))),
        (by_calls, 2, 3, (("c", 1), ("last", 2))),
        (partly, 0, 4, (("b", 0), ("c", 1), ("_", 2), ("_", 3))),
        (partly, 0, 1, None),
    ],
)
def test_which_axes_they_are(function: Any, number: int, rank: int, axes: Any) -> None:
    statement: LengthStatement = length_statements(function)[number]
    assert statement.axes_of(rank) == axes
