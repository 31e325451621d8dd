"""A box of what a move gives is made of boxes of what it takes, bit for bit, and of no more than it needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.errors import WeightsMismatch
from port.moves import Addends, Flip, Fold, Join, Permute, Reshape, Split, Stack, Sum, Tie, Unstack, restriction_of
from port.moves.boxes import cut, kept, shape_of, size_of, whole

LOOSE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def boxes_of(draw, shapes):
    """A box of each array, or None."""
    boxes = []
    for shape in shapes:
        ends = [sorted((draw(st.integers(0, size)), draw(st.integers(0, size)))) for size in shape]
        boxes.append(None if draw(st.integers(0, 3)) == 0 else tuple(range(*each) for each in ends))
    return tuple(boxes)


def same(left, right):
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(left, right, strict=True)
    )


def part_and_whole(moves, arrays, wanted):
    """Cut and then moved, and moved and then cut."""
    part = restriction_of(moves, tuple(array.shape for array in arrays), wanted)
    given = tuple(cut(array, box).copy() for array, box in zip(arrays, part.needs, strict=True) if box is not None)
    for move in moves:
        arrays = move(arrays)
    asked = tuple(cut(array, box) for array, box in zip(arrays, wanted, strict=True) if box is not None)
    return part.make(given), asked


@LOOSE
@given(data=st.data())
def test_cut_then_moved_is_moved_then_cut(data, exact_moves):
    move, arrays = data.draw(exact_moves)
    wanted = data.draw(boxes_of(move.shapes(tuple(array.shape for array in arrays))))
    assert same(*part_and_whole((move,), arrays, wanted))


@LOOSE
@given(data=st.data())
def test_so_it_is_through_several_moves(data, chains):
    moves, arrays = data.draw(chains)
    shapes = tuple(array.shape for array in arrays)
    for move in moves:
        shapes = move.shapes(shapes)
    wanted = data.draw(boxes_of(shapes))
    assert same(*part_and_whole(moves, arrays, wanted))


@LOOSE
@given(data=st.data())
def test_sums_and_their_addends(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    count = data.draw(st.integers(1, 3))
    array = np.random.default_rng(0).normal(size=shape)
    for move, arrays in ((Sum(count), (array,) * count), (Addends(count), (array,))):
        wanted = data.draw(boxes_of(move.shapes(tuple(each.shape for each in arrays))))
        assert same(*part_and_whole((move,), arrays, wanted))


NEEDED = {
    "permute": ((Permute((1, 0)),), ((6, 4),), (range(2), range(3, 6)), 6),
    "a matrix's rows by head": ((Reshape((12, 5), (4, 3, 5)),), ((12, 5),), (range(1, 3), range(3), range(5)), 30),
    "one head's rows": ((Reshape((12, 5), (4, 3, 5)),), ((12, 5),), (range(2, 3), range(1, 3), range(5)), 10),
    "heads joined": ((Reshape((4, 3, 5), (12, 5)),), ((4, 3, 5),), (range(6, 12), range(5)), 30),
    "heads, then a permute": (
        (Permute((1, 0)), Reshape((5, 12), (5, 4, 3))),
        ((12, 5),),
        (range(5), range(2), range(3)),
        30,
    ),
    "fold by its first part": ((Fold(1, (4, 6), (1, 0)),), ((2, 24),), (range(1), range(24)), 24),
    "split": ((Split(0, (8, 4, 4)),), ((16, 3),), (range(4, 8), range(3)), 12),
    "join": ((Join(0, (8, 4)),), ((8, 3), (4, 3)), (range(9, 12), range(3)), 9),
    "stack": ((Stack(0, 4),), ((2, 3),) * 4, (range(1, 3), range(2), range(3)), 12),
    "unstack": ((Unstack(0, 4),), ((4, 2, 3),), (range(1), range(3)), 3),
    "flip": ((Flip((0,)),), ((5, 2),), (range(2), range(2)), 4),
    "tie": ((Tie(2),), ((5, 2),) * 2, (range(2), range(2)), 8),
}


@pytest.mark.parametrize("name", NEEDED)
def test_no_more_is_needed_than_is_asked_for(name):
    moves, shapes, box, elements = NEEDED[name]
    count = len(shapes)
    for move in moves:
        shapes = move.shapes(shapes)
    wanted = (box, *(None,) * (len(shapes) - 1))
    part = restriction_of(moves, NEEDED[name][1], wanted)
    assert len(part.needs) == count
    assert sum(map(size_of, kept(part.needs))) == elements


def test_a_box_is_of_its_array():
    with pytest.raises(WeightsMismatch, match="does not fit an array of shape"):
        restriction_of((Permute((1, 0)),), ((2, 3),), ((range(3), range(3)),))
    with pytest.raises(WeightsMismatch, match="2 boxes were requested for 1"):
        restriction_of((), ((2, 3),), (whole((2, 3)), None))


def test_nothing_asked_for_needs_nothing():
    part = restriction_of((Stack(0, 3),), ((2,),) * 3, (None,))
    assert part.needs == (None, None, None)
    assert part.make(()) == ()
    assert shape_of(whole((2, 3))) == (2, 3)
