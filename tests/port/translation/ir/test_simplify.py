"""Simplified expressions: shorter, and worth the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.simplify import merged_subscripts, simplify, with_whole_lists
from port.translation.ir.syntax import parsed, source


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("-1 % 4 + 1", "4"),
        ("(3, 4, 5)[1]", "4"),
        ("f(*(1, 2), x)", "f(1, 2, x)"),
        ("(*(1, 2), x)", "(1, 2, x)"),
        ("[*(1, x), 3]", "[1, x, 3]"),
        ("a if 2 > 1 else b", "a"),
        ("a if None is None else b", "a"),
        ("0 or x", "x"),
        ("1 or x", "1"),
        ("0 and x", "0"),
        ("x and 0", "x and 0"),
        ("1 and x and y", "x and y"),
        ("tuple((k - 1) % 4 for k in (0, 2))", "(3, 1)"),
        ("len((1, 2, 3))", "3"),
        ("1 / 0", "1 / 0"),
        ("f(2 * 3, axis=1 - 2)", "f(6, axis=-1)"),
        ("x.ndim - 1", "x.ndim - 1"),
    ],
)
def test_what_numbers_alone_say(text: str, short: str) -> None:
    assert source(simplify(parsed(text))) == short


def test_the_rank_of_a_value_is_a_number_where_it_is_known() -> None:
    tree = code("x.ndim - 2", x=syntax.Use("x"))
    assert source(simplify(tree, {"x": 4}.get)) == "2"
    assert source(simplify(tree)) == "%x.ndim - 2"


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        st.tuples(two, st.integers(0, 1)).map(lambda parts: f"({parts[0][0]}, {parts[0][1]})[{parts[1]}]"),
        two.map(lambda parts: f"max({parts[0]}, {parts[1]})"),
        inner.map(lambda part: f"(-{part})"),
    )


_EXPRESSIONS = st.recursive(st.integers(0, 4).map(str) | st.just("x"), _combined, max_leaves=8)


def _worth(tree: syntax.Expr, **names: Any) -> Any:
    try:
        return eval(source(tree), dict(names))
    except ZeroDivisionError:
        return ZeroDivisionError


@settings(deadline=None, max_examples=50)
@given(_EXPRESSIONS, st.integers(-3, 3))
def test_an_expression_stays_worth_the_same(text: str, x: int) -> None:
    assert _worth(simplify(parsed(text)), x=x) == _worth(parsed(text), x=x)


_BOUNDS = st.none() | st.integers(-3, 3)
_SLICES = st.builds(slice, _BOUNDS, _BOUNDS, st.sampled_from([None, 1, 2]))
_PARTS = st.lists(st.just(slice(None)) | _SLICES | st.sampled_from([0, -1]), min_size=1, max_size=2)


def _index(parts: list[Any]) -> str:
    def text(part: Any) -> str:
        if not isinstance(part, slice):
            return str(part)
        ends = [("" if end is None else str(end)) for end in (part.start, part.stop)]
        return ":".join(ends) + ("" if part.step is None else f":{part.step}")

    return "[" + ", ".join(map(text, parts)) + "]"


@settings(deadline=None, max_examples=50)
@given(st.lists(_PARTS, min_size=1, max_size=3))
def test_merged_brackets_take_the_same(indices: list[list[Any]]) -> None:
    text = "x" + "".join(map(_index, indices))
    x = np.arange(3 * 4 * 5 * 2 * 3 * 2).reshape(3, 4, 5, 2, 3, 2)
    try:
        before = _worth(parsed(text), x=x)
    except IndexError:
        return  # of an empty part there is no first element
    assert np.array_equal(_worth(merged_subscripts(parsed(text)), x=x), before)


@pytest.mark.parametrize(
    ("text", "merged"),
    [
        ("x[:, 1:][:, :, ::2]", "x[:, 1:, ::2]"),
        ("x[:, 0][1:]", "x[1:, 0]"),
        ("x[1:][2:]", "x[1:][2:]"),
        ("x[1:][0]", "x[1:][0]"),
        ("x[mask][0]", "x[mask][0]"),
        ("x['a'][0]", "x['a'][0]"),
        ("x[..., 1][0]", "x[..., 1][0]"),
    ],
)
def test_brackets(text: str, merged: str) -> None:
    assert source(merged_subscripts(parsed(text))) == merged


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("f([parts[0], parts[1]])", "f(parts)"),
        ("f([parts[1], parts[0]])", "f([parts[1], parts[0]])"),
        ("f([parts[0]])", "f([parts[0]])"),
        ("f([others[0], others[1]])", "f([others[0], others[1]])"),
        ("f([parts[0], others[1]])", "f([parts[0], others[1]])"),
        ("f([])", "f([])"),
    ],
)
def test_a_list_that_is_written_item_by_item(text: str, whole: str) -> None:
    assert source(with_whole_lists(parsed(text), {"parts": 2})) == whole
