"""Padding, and its inverse: what is dropped is padding bit for bit, also where it is looked at in parts."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.moves import Pad, Permute, Unpad, restriction_of
from port.moves.boxes import cut

TABLE = np.random.default_rng(0).normal(size=(5, 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_zeros_come_behind_and_go_again(dtype):
    table = (10 * TABLE).astype(dtype)
    (padded,) = Pad(0, 5, 8)((table,))
    assert padded.dtype == table.dtype
    assert padded.tobytes() == table.tobytes() + bytes(9 * table.itemsize)
    (back,) = Unpad(0, 8, 5)((padded,))
    assert back.tobytes() == table.tobytes()


def test_along_another_axis_with_another_value():
    (padded,) = Pad(1, 3, 5, -np.inf)((TABLE,))
    assert np.array_equal(padded[:, :3], TABLE)
    assert (padded[:, 3:] == -np.inf).all()
    assert Pad(1, 3, 5, -np.inf).inverse().inverse() == Pad(1, 3, 5, -np.inf)
    with pytest.raises(WeightsMismatch, match="hold -inf, and not only 0"):
        Unpad(1, 5, 3)((padded,))


@pytest.mark.parametrize("strange", [1e-320, -0.0, np.nan, 3.0])
def test_what_is_no_padding_is_not_dropped(strange):
    (padded,) = Pad(0, 5, 8)((TABLE,))
    padded[6, 1] = strange
    with pytest.raises(
        WeightsMismatch,
        match=re.escape(f"unpad(axis 0 from 8 to 5): the elements to drop are not padding: they hold {strange}"),
    ):
        Unpad(0, 8, 5)((padded,))


@pytest.mark.parametrize("place", [(row, column) for row in range(5, 8) for column in range(3)])
def test_parts_look_at_all_of_the_padding(place):
    """Each device's part, one after the other: the one behind which the padding stands finds what is wrong."""
    (padded,) = Pad(0, 5, 8)((TABLE,))
    parts = [(range(rows, stop), range(column, column + 1)) for rows, stop in ((0, 2), (2, 5)) for column in range(3)]

    def made(box):
        part = restriction_of((Unpad(0, 8, 5),), ((8, 3),), (box,))
        return part.make((cut(padded, part.needs[0]).copy(),))[0]

    assert all(np.array_equal(made(box), cut(TABLE, box)) for box in parts)
    padded[place] = 1
    refused = []
    for box in parts:
        try:
            made(box)
        except WeightsMismatch:
            refused.append(box)
    assert refused == [(range(2, 5), range(place[1], place[1] + 1))]


def test_a_part_reads_no_padding_that_it_has_not_to_look_at():
    assert restriction_of((Unpad(0, 8, 5),), ((8, 3),), ((range(4), range(3)),)).needs == ((range(4), range(3)),)
    moves = (Pad(0, 5, 8), Permute((1, 0)))
    assert restriction_of(moves, ((5, 3),), ((range(3), range(4, 7)),)).needs == ((range(4, 5), range(3)),)
    assert restriction_of(moves, ((5, 3),), ((range(3), range(6, 8)),)).needs == ((range(5, 5), range(3)),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pad(0, 5, 4), "must not be shorter than the other, got 4 for 5"),
        (lambda: Unpad(0, 4, 5), "must not be shorter than the other, got 4 for 5"),
        (lambda: Pad(0, -1, 4), "got 4 for -1"),
        (lambda: Pad(0, 5, 8, np.nan), "not NaN"),
        (
            lambda: Pad(0, 4, 8)((TABLE,)),
            r"pad\(axis 0 from 4 to 8\) needs 4 elements along axis 0, got shape \(5, 3\)",
        ),
        (lambda: Unpad(2, 4, 4)((TABLE,)), r"needs 4 elements along axis 2, got shape \(5, 3\)"),
        (
            lambda: Pad(0, 5, 8, -1.0)((TABLE.astype(np.int8),)),
            "an array of int8 can be padded with 0 only, not with -1",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(WeightsMismatch, match=message):
        make()
