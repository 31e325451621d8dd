"""Branches side by side, and another order."""

from __future__ import annotations

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Branch, EachBranch, Join, Order, Permute, Split, Stack


def test_each_branch_takes_the_arrays_after_those_of_the_one_before():
    a, b, c = (np.random.default_rng(seed).normal(size=(2, 3)) for seed in range(3))
    move = EachBranch((Branch(1, (Permute((1, 0)),), 1), Branch(2, (Join(0, (2, 2)), Split(1, (1, 2))), 2)))
    turned, left, right = move((a, b, c))
    assert turned.tolist() == a.T.tolist()
    assert left.tolist() == np.concatenate([b, c])[:, :1].tolist()
    assert right.tolist() == np.concatenate([b, c])[:, 1:].tolist()


def test_a_branch_that_gives_another_number_is_refused_with_and_without_arrays():
    move = EachBranch((Branch(2, (Stack(0, 2),), 2),))
    for attempt in (lambda: move.shapes(((3,), (3,))), lambda: move((np.zeros(3), np.zeros(3)))):
        with pytest.raises(WeightsMismatch, match="must return 2 arrays, not 1"):
            attempt()


def test_a_wrong_number_of_arrays_is_refused():
    with pytest.raises(WeightsMismatch, match="takes 2 arrays, got 1"):
        EachBranch((Branch(1, (), 1),) * 2).shapes(((3,),))
    with pytest.raises(WeightsMismatch, match=r"order\(1, 0\) takes 2 arrays, got 3"):
        Order((1, 0)).shapes(((3,),) * 3)


def test_the_ith_of_the_result_is_the_one_at_places_i():
    a, b, c = (np.full(2, value) for value in (1, 2, 3))
    assert [array[0] for array in Order((2, 0, 1))((a, b, c))] == [3, 1, 2]
    assert [array[0] for array in Order((2, 0, 1)).inverse()((c, a, b))] == [1, 2, 3]


def test_an_order_names_each_place_once():
    with pytest.raises(WeightsMismatch, match="each position from 0 on exactly once"):
        Order((0, 0))


def test_alike_branches_are_printed_once():
    branch = Branch(1, (Permute((1, 0)),), 1)
    assert str(EachBranch((branch,) * 3)) == "each(permute(1, 0))"
    assert str(EachBranch((branch, Branch(1, (), 1)))) == "each(permute(1, 0) | unchanged)"
