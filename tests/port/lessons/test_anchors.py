"""The longest set of equal things that keeps its order, against all that can be tried."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from port.lessons.anchors import in_order

names = st.lists(st.sampled_from("abcd"), max_size=8)


def longest(left: list[str], right: list[str]) -> int:
    @cache
    def of(i: int, j: int) -> int:
        if i == len(left) or j == len(right):
            return 0
        return max(of(i + 1, j), of(i, j + 1), (left[i] == right[j]) + of(i + 1, j + 1))

    return of(0, 0)


@given(names, names)
def test_no_longer_set_is_in_order(left, right):
    pairs = in_order(left, right)
    assert all(left[i] == right[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    assert len(pairs) == longest(left, right)


def test_a_name_that_stands_everywhere_is_paired_one_by_one():
    assert in_order("x" * 50, "x" * 60) == [(n, n) for n in range(50)]
