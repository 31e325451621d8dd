"""Split and join, stack and unstack: which element goes where."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Join, Split, Stack, Unstack


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def test_a_split_gives_the_parts_in_order():
    array = random(6, 2)
    parts = Split(0, (1, 3, 2))((array,))
    assert [part.tolist() for part in parts] == [array[:1].tolist(), array[1:4].tolist(), array[4:].tolist()]


def test_a_join_puts_them_after_one_another():
    first, second = random(2, 3), random(2, 1)
    (joined,) = Join(1, (3, 1))((first, second))
    assert joined[:, :3].tolist() == first.tolist()
    assert joined[:, 3:].tolist() == second.tolist()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_stack_has_the_new_axis_where_it_is_said(axis):
    arrays = (random(2, 3), random(2, 3) + 1, random(2, 3) + 2)
    (stacked,) = Stack(axis, 3)(arrays)
    for place, array in enumerate(arrays):
        assert np.take(stacked, place, axis).tolist() == array.tolist()


def test_unstacked_elements_of_a_vector_are_arrays_of_their_dtype():
    for dtype in (np.float32, ml_dtypes.bfloat16):
        elements = Unstack(0, 3)((np.arange(3, dtype=dtype),))
        assert all(isinstance(element, np.ndarray) and element.shape == () for element in elements)
        assert [element.dtype for element in elements] == [dtype] * 3
        assert [float(element) for element in elements] == [0, 1, 2]


@pytest.mark.parametrize("move", [Join(0, (2, 2)), Stack(0, 2)])
def test_two_dtypes_are_refused(move):
    with pytest.raises(WeightsMismatch, match="one dtype, got float64, float32"):
        move((np.zeros(2), np.zeros(2, np.float32)))


@pytest.mark.parametrize(
    ("move", "shapes"),
    [
        (Split(0, (2, 3)), ((4,),)),
        (Split(1, (2, 3)), ((5,),)),
        (Split(-1, (2, 3)), ((5,),)),
        (Split(0, (2, 3)), ((5,), (5,))),
        (Join(0, (2, 3)), ((2, 4), (3, 5))),
        (Join(0, (2, 3)), ((3,), (2,))),
        (Join(2, (2, 3)), ((2,), (3,))),
        (Join(0, (2, 3)), ((2,),)),
        (Stack(0, 2), ((2,), (3,))),
        (Stack(2, 2), ((2,), (2,))),
        (Stack(0, 3), ((2,), (2,))),
        (Unstack(0, 3), ((2,),)),
        (Unstack(1, 2), ((2,),)),
    ],
)
def test_shapes_that_it_cannot_take_are_refused(move, shapes):
    with pytest.raises(WeightsMismatch, match=type(move).__name__.lower()):
        move.shapes(shapes)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Split(0, ()),
        lambda: Join(0, ()),
        lambda: Split(0, (3, -1)),
        lambda: Join(0, (3, -1)),
        lambda: Stack(0, 0),
        lambda: Unstack(0, 0),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_said(build):
    with pytest.raises(WeightsMismatch, match=r"at least one array|of 0 or more"):
        build()
