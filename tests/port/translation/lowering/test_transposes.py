"""Transposes are emitted with the most specific function."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from port.translation.ir.syntax import Name, source
from port.translation.lowering.transposes import transposed


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_a_written_transpose_does_what_its_axes_say(rank: int) -> None:
    x = np.arange(np.prod(range(2, rank + 2))).reshape(tuple(range(2, rank + 2)))
    for axes in permutations(range(rank)):
        if axes == tuple(range(rank)):
            continue
        text = source(transposed(Name("x"), axes))
        assert np.array_equal(eval(text, {"jnp": np, "x": x}), x.transpose(axes)), text


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ((0, 2, 1), "jnp.matrix_transpose(x)"),
        ((1, 0, 2), "jnp.swapaxes(x, 0, 1)"),
        ((0, 2, 3, 1), "jnp.moveaxis(x, 1, -1)"),
        ((0, 3, 1, 2), "jnp.moveaxis(x, -1, 1)"),
        ((3, 2, 1, 0), "jnp.transpose(x, (3, 2, 1, 0))"),
    ],
)
def test_a_transpose_as_a_person_writes_it(axes: tuple[int, ...], text: str) -> None:
    assert source(transposed(Name("x"), axes)) == text
