"""Merged new axes are at the same positions as nested ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir import syntax
from port.translation.ir.new_axes import with_bracketed_axes
from port.translation.ir.syntax import parsed, source


def nested(array: syntax.Expr, axes: list[int]) -> syntax.Expr:
    for axis in axes:
        array = syntax.Call(parsed("jnp.expand_dims"), (array, parsed(str(axis))))
    return array


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_same_shape(data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 3))
    axes: list[int] = []
    for number in range(data.draw(st.integers(2, 4))):
        axes.append(data.draw(st.integers(-rank - number - 1, rank + number)))
    x = np.zeros((2, 3, 5)[:rank])
    expected = eval(source(nested(parsed("x"), axes)), {"jnp": np, "x": x}).shape
    for ranks in ({"x": rank}, {}):
        made = source(with_bracketed_axes(nested(syntax.Use("x"), axes), ranks.get)).replace("%", "")
        assert eval(made, {"jnp": np, "x": x}).shape == expected, made
        assert "expand_dims" not in made or not ranks


@pytest.mark.parametrize(
    ("text", "rank", "expected"),
    [
        ("jnp.expand_dims(jnp.expand_dims(jnp.expand_dims(x, -1), -1), -1)", None, "%x[..., None, None, None]"),
        ("jnp.expand_dims(jnp.expand_dims(jnp.expand_dims(x, -1), -1), -1)", 1, "%x[:, None, None, None]"),
        ("jnp.expand_dims(jnp.expand_dims(jnp.expand_dims(x, 0), 1), -1)", 1, "%x[None, None, :, None]"),
        ("jnp.expand_dims(jnp.expand_dims(x, 0), 1)", None, "%x[None, None]"),
        ("jnp.expand_dims(jnp.expand_dims(x, 1), 1)", None, "%x[:, None, None]"),
        ("jnp.expand_dims(x, 1) + jnp.expand_dims(jnp.expand_dims(x, 2), 1)", 3, None),
        ("jnp.expand_dims(x, 1)", 2, "jnp.expand_dims(%x, 1)"),
        ("jnp.expand_dims(jnp.expand_dims(x, 0), axis)", 2, "jnp.expand_dims(jnp.expand_dims(%x, 0), axis)"),
        ("jnp.expand_dims(jnp.expand_dims(x, 0), -1)", None, "jnp.expand_dims(jnp.expand_dims(%x, 0), -1)"),
    ],
)
def test_how_it_reads(text: str, rank: int | None, expected: str | None) -> None:
    def used(node: syntax.Node) -> syntax.Node:
        return syntax.Use("x") if node == syntax.Name("x") else node

    made = with_bracketed_axes(syntax.transformed(parsed(text), used), lambda name: rank)
    assert source(made) == (expected or "jnp.expand_dims(%x, 1) + %x[:, None, :, None]")
