"""Tie and copy, sum and addends."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Addends, Copy, Sum, Tie


def test_equal_bits_are_one_tensor():
    array = np.array([[1.0, np.nan], [-0.0, 2.0]])
    (tied,) = Tie(3)((array, array.copy(), np.asfortranarray(array)))
    assert tied is array


@pytest.mark.parametrize(
    "other",
    [np.array([1.0, 2.0 + 1e-15]), np.array([1.0, 2.0], np.float32), np.array([1.0, np.nan])],
)
def test_what_differs_in_one_bit_or_in_dtype_is_not_tied(other):
    with pytest.raises(WeightsMismatch, match=r"tie\(2\): the tensors differ"):
        Tie(2)((np.array([1.0, 2.0]), other))


def test_zero_and_minus_zero_are_two_tensors():
    with pytest.raises(WeightsMismatch, match="differ"):
        Tie(2)((np.array(0.0), np.array(-0.0)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8])
def test_a_copy_is_tied_again(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    assert Tie(3)(Copy(3)((array,)))[0].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_a_sum_keeps_the_dtype_and_is_an_array(dtype, shape):
    arrays = tuple(np.full(shape, value).astype(dtype) for value in (1, 2, 4))
    (total,) = Sum(3)(arrays)
    assert isinstance(total, np.ndarray)
    assert (total.dtype, total.shape) == (dtype, shape)
    assert total.tolist() == np.full(shape, 7).astype(dtype).tolist()


def test_a_sum_of_two_dtypes_is_refused():
    with pytest.raises(WeightsMismatch, match="one dtype"):
        Sum(2)((np.zeros(2), np.zeros(2, np.float32)))


def test_addends_are_the_array_and_zeros_that_sum_to_it():
    array = np.array([1.5, -2.0, np.inf])
    addends = Addends(3)((array,))
    assert [addend.tolist() for addend in addends] == [array.tolist(), [0.0] * 3, [0.0] * 3]
    assert Sum(3)(addends)[0].tolist() == array.tolist()
    assert Addends(2)(Sum(2)((array, array)))[1].tolist() == [0.0] * 3  # so the way back is not the way there


@pytest.mark.parametrize("kind", [Tie, Copy, Sum, Addends])
def test_of_no_array_there_is_none(kind):
    with pytest.raises(WeightsMismatch, match="at least one array, got 0"):
        kind(0)


@pytest.mark.parametrize(
    ("move", "shapes"),
    [(Tie(2), ((2,), (3,))), (Tie(2), ((2,),)), (Sum(2), ((2,), (3,))), (Copy(2), ((2,), (2,))), (Addends(2), ())],
)
def test_shapes_that_it_cannot_take_are_refused(move, shapes):
    with pytest.raises(WeightsMismatch, match=type(move).__name__.lower()):
        move.shapes(shapes)
