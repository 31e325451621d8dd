"""Permute, reshape, fold, flip: element by element."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Flip, Fold, Permute, Reshape

ORDERS = [axes for rank in (0, 1, 2, 3, 4) for axes in permutations(range(rank))]


def numbered(*shape: int) -> np.ndarray:
    return np.arange(prod(shape)).reshape(shape)


@pytest.mark.parametrize("axes", ORDERS)
def test_axis_i_of_the_result_is_axis_axes_i_of_the_array(axes):
    array = numbered(*range(2, 2 + len(axes)))
    (moved,) = Permute(axes)((array,))
    assert moved.shape == tuple(array.shape[axis] for axis in axes)
    for index in np.ndindex(moved.shape):
        assert moved[index] == array[tuple(index[axes.index(axis)] for axis in range(len(axes)))]


def test_a_reshape_keeps_the_order_of_the_elements():
    array = numbered(2, 6)
    (moved,) = Reshape((2, 6), (3, 4))((array,))
    assert moved.ravel().tolist() == array.ravel().tolist()
    assert moved.shape == (3, 4)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_fold_reorders_what_was_flattened(order):
    features = np.random.default_rng(0).normal(size=(2, 3, 4))  # (C, H, W)
    weight = np.random.default_rng(1).normal(size=(5, 24))
    (moved,) = Fold(1, (2, 3, 4), order)((weight,))
    np.testing.assert_allclose(moved @ features.transpose(order).ravel(), weight @ features.ravel(), rtol=1e-13)
    if order != (0, 1, 2):
        assert not np.allclose(weight @ features.transpose(order).ravel(), weight @ features.ravel())


def test_a_fold_leaves_the_other_axes():
    array = numbered(3, 6, 2)
    (moved,) = Fold(1, (2, 3), (1, 0))((array,))
    assert moved[:, [0, 2, 4, 1, 3, 5]].tolist() == array.tolist()


def test_a_flip_reverses_its_axes_alone():
    array = numbered(2, 3, 4)
    assert Flip((0, 2))((array,))[0].tolist() == array[::-1, :, ::-1].tolist()
    assert Flip(())((array,))[0].tolist() == array.tolist()


def test_each_array_is_taken_for_itself():
    first, second = Permute((1, 0))((numbered(2, 3), numbered(4, 5)))
    assert (first.shape, second.shape) == ((3, 2), (5, 4))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Permute((0, 2)), "each axis from 0 on exactly once"),
        (lambda: Permute((0, -1)), "each axis from 0 on exactly once"),
        (lambda: Reshape((2, 3), (4,)), "their sizes differ"),
        (lambda: Reshape((2,), (-1, -2)), "of 0 or more"),
        (lambda: Fold(1, (2, 3), (0, 0)), "orders each"),
        (lambda: Fold(1, (-2, -3), (0, 1)), "of 0 or more"),
        (lambda: Flip((1, 1)), "once"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_said(build, message):
    with pytest.raises(WeightsMismatch, match=message):
        build()


@pytest.mark.parametrize(
    ("move", "shape"),
    [
        (Permute((1, 0)), (2, 3, 4)),
        (Reshape((6,), (2, 3)), (3, 2)),
        (Fold(1, (2, 3), (1, 0)), (6,)),
        (Fold(0, (2, 3), (1, 0)), (5,)),
        (Fold(-1, (2, 3), (1, 0)), (6,)),
        (Flip((1,)), (3,)),
        (Flip((-1,)), (3,)),
    ],
)
def test_a_shape_that_it_cannot_take_is_refused(move, shape):
    with pytest.raises(WeightsMismatch, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        move((np.zeros(shape),))
