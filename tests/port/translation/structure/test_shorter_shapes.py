"""Consecutive lengths are written as slices of a shape."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.shorter_shapes import with_whole_shapes

RANKS = {syntax.Name("x"): 4, syntax.Name("y"): 2}


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("q.reshape(x.shape[0], x.shape[1], 8)", "q.reshape(*x.shape[:2], 8)"),
        ("q.reshape(x.shape[0], y.shape[1], 8)", "q.reshape(x.shape[0], y.shape[1], 8)"),
        ("q.reshape(x.shape[1], x.shape[0], 8)", "q.reshape(x.shape[1], x.shape[0], 8)"),
        ("q.reshape(2, x.shape[1], x.shape[2], x.shape[-1])", "q.reshape(2, *x.shape[1:])"),
        ("q.reshape(2, x.shape[1], x.shape[-1])", "q.reshape(2, x.shape[1], x.shape[-1])"),
        ("f((x.shape[1], x.shape[2]))", "f(x.shape[1:3])"),
        ("f((x.shape[0], x.shape[1], x.shape[2], x.shape[-1]))", "f(x.shape)"),
        ("f((2, y.shape[0], y.shape[-1]))", "f((2, *y.shape))"),
        # How many axes it has is not known: the last may be any.
        ("f((2, z.shape[1], z.shape[-1]))", "f((2, z.shape[1], z.shape[-1]))"),
        ("f((2, self.w.shape[1], self.w.shape[2]))", "f((2, *self.w.shape[1:3]))"),
        ("q.reshape(sizes[0], sizes[1], 8)", "q.reshape(*sizes, 8)"),
        ("q.reshape(sizes[1], sizes[0], 8)", "q.reshape(sizes[1], sizes[0], 8)"),
        ("f((parts[0], parts[1]))", "f((parts[0], parts[1]))"),  # no lengths
        ("f(x.shape[0], x.shape[1])", "f(x.shape[0], x.shape[1])"),  # no list of lengths
    ],
)
def test_in_fewer_words(long: str, short: str) -> None:
    assert syntax.source(with_whole_shapes(code(long), RANKS.get, {"sizes": 2}.get)) == short
