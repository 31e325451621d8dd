"""Lines opposite lines: what is alike, in order, and the best of all ways."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import port.lessons.pairing
from port.lessons.pairing import pair_lines
from port.lessons.similarity import scores

WORDS = [
    "",
    "    ",
    ")",
    "x = 1",
    "y = x + 1",
    "x = model(y)",
    "return x",
    "    return x",
    "return model(x)",
    "z" * 2000,
]
lines = st.lists(st.sampled_from(WORDS), max_size=9)


def best(worth: np.ndarray) -> float:
    @cache
    def of(i: int, j: int) -> float:
        if i == worth.shape[0] or j == worth.shape[1]:
            return 0.0
        return max(of(i + 1, j), of(i, j + 1), float(worth[i, j]) + of(i + 1, j + 1))

    return of(0, 0)


@given(lines, lines)
def test_no_other_pairing_is_better(left, right):
    pairs = pair_lines(left, right)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    worth = scores(left, right)
    assert sum(worth[i, j] for i, j in pairs) == pytest.approx(best(worth), abs=1e-5)
    assert all(worth[i, j] > 0 for i, j in pairs)


@given(lines, lines)
def test_a_long_stretch_that_is_divided_keeps_the_order(left, right):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port.lessons.pairing, "AT_ONCE", 4)
        pairs = pair_lines(left, right)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    assert all(0 <= i < len(left) and 0 <= j < len(right) for i, j in pairs)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (["loss.backward()", "optimizer.step()"], ["updates = optimizer.update(grads)"], []),
        (["self.fc = nn.Linear(3, 4)"], ["key = 1", "self.fc = nnx.Linear(3, 4, rngs=rngs)"], [(0, 1)]),
        (["x = x.float()", ""], ["", "x = x.float()"], [(0, 1)]),  # an empty line is worth next to nothing
        (["return x"], ["    return x"], [(0, 0)]),
        ([")"], ["]"], []),
        (["a = b"], ["c = d"], []),
    ],
)
def test_lines_stand_opposite_the_ones_that_say_the_same(left, right, expected):
    assert pair_lines(left, right) == expected


def test_equal_lines_are_worth_more_than_the_same_words():
    worth = scores(["f(x, y)", "    f(x, y)"], ["f(x, y)", "f(y, x)"])
    assert worth[0, 0] > worth[0, 1] == worth[1, 0] > 0
