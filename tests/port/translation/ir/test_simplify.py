"""Simplified indices read the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir.simplify import merged_subscripts, with_plain_axes, with_whole_lists
from port.translation.ir.syntax import parsed, source

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
        before = eval(text, {"x": x})
    except IndexError:
        return  # of an empty part there is no first element
    assert np.array_equal(eval(source(merged_subscripts(parsed(text))), {"x": x}), before)


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
        ("x.at[1:].set(x[1:].at[:, 2:].set(0))", "x.at[1:, 2:].set(0)"),
        ("x.at[1:].set(x[1:].at[:, :-n, 3].set(y))", "x.at[1:, :-n, 3].set(y)"),
        ("x.at[1:].set(x[2:].at[:, 2:].set(0))", "x.at[1:].set(x[2:].at[:, 2:].set(0))"),
        ("x.at[1:].set(y[1:].at[:, 2:].set(0))", "x.at[1:].set(y[1:].at[:, 2:].set(0))"),
        ("x.at[1:].set(x[1:].at[2:].set(0))", "x.at[1:].set(x[1:].at[2:].set(0))"),
        ("x.at[1:].add(x[1:].at[:, 2:].set(0))", "x.at[1:].add(x[1:].at[:, 2:].set(0))"),
        ("x.at[1:].set(x[1:].at[:, 2:].add(0))", "x.at[1:].set(x[1:].at[:, 2:].add(0))"),
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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("jnp.sum(x * 2, axis=(-1,), keepdims=True)", "jnp.sum(x * 2, axis=-1, keepdims=True)"),
        ("jnp.mean(jnp.var(x, axis=(0,)), axis=(1,))", "jnp.mean(jnp.var(x, axis=0), axis=1)"),
        ("jnp.sum(x, axis=(0, 1))", "jnp.sum(x, axis=(0, 1))"),
        ("jnp.sum(x, axis=(*axes,))", "jnp.sum(x, axis=(*axes,))"),
        ("jnp.roll(x, (1,), axis=(0,))", "jnp.roll(x, (1,), axis=(0,))"),
        ("F.sum(x, axis=(0,))", "F.sum(x, axis=(0,))"),
    ],
)
def test_one_axis(text: str, plain: str) -> None:
    assert source(with_plain_axes(parsed(text))) == plain


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("layer(x, (pair[0], pair[1]))", "layer(x, pair)"),
        ("layer(x, (pair[1], pair[0]))", "layer(x, (pair[1], pair[0]))"),
        ("layer(x, (pair[0],))", "layer(x, (pair[0],))"),
        ("layer(x, [pair[0], pair[1]])", "layer(x, [pair[0], pair[1]])"),  # a list is no tuple
    ],
)
def test_all_items_of_a_tuple_are_the_tuple(text: str, whole: str) -> None:
    assert source(with_whole_lists(parsed(text), {}, {"pair": 2})) == whole
