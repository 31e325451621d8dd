"""What every move promises: an inverse that loses no bit, shapes told without arrays, one refusal for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.errors import WeightsMismatch
from port.moves import Arrays, Fold, Join, Move, Permute, Shapes, Split, Unstack

LOOSE = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
WRONG = st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), max_size=3).map(tuple)


def same(left: Arrays, right: Arrays) -> bool:
    """Bit for bit: NaN is NaN of the same bits, −0 is not 0."""
    return len(left) == len(right) and all(
        isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(left, right, strict=True)
    )


@LOOSE
@given(data=st.data())
def test_the_inverse_undoes_the_move_bit_for_bit(data, exact_moves):
    move, arrays = data.draw(exact_moves)
    moved = move(arrays)
    assert {array.dtype for array in moved} <= {array.dtype for array in arrays}
    assert same(move.inverse()(moved), arrays)
    assert same(move(move.inverse()(moved)), moved)


@LOOSE
@given(data=st.data())
def test_the_inverse_of_the_inverse_is_the_move(data, any_moves):
    move, _ = data.draw(any_moves)
    assert move.inverse().inverse() == move
    assert hash(move.inverse().inverse()) == hash(move)


@LOOSE
@given(data=st.data())
def test_shapes_are_those_of_the_arrays_that_it_gives(data, any_moves):
    move, shapes = data.draw(any_moves)
    moved = move(tuple(np.zeros(shape) for shape in shapes))
    assert all(isinstance(array, np.ndarray) for array in moved)
    assert move.shapes(shapes) == tuple(array.shape for array in moved)
    assert move.inverse().shapes(move.shapes(shapes)) == shapes


@LOOSE
@given(data=st.data(), wrong=WRONG)
def test_shapes_are_refused_as_arrays_of_them_are(data, wrong, any_moves):
    move, _ = data.draw(any_moves)
    said = []
    for attempt in (
        lambda: move.shapes(wrong),
        lambda: tuple(array.shape for array in move(tuple(np.zeros(s) for s in wrong))),
    ):
        try:
            said.append(attempt())
        except WeightsMismatch as error:
            said.append(str(error))
    assert said[0] == said[1]


@dataclass(frozen=True)
class Faulty:
    """A move with something changed: the planted fault."""

    move: Move
    fault: str

    def __call__(self, arrays: Arrays) -> Arrays:
        moved = self.move(arrays)
        if self.fault == "dtype":
            return tuple(array.astype(np.float64) for array in moved)
        return moved[::-1] if self.fault == "order" else moved

    def shapes(self, shapes: Shapes) -> Shapes:
        return self.move.shapes(shapes)

    def inverse(self) -> Move:
        return self.move if self.fault == "inverse" else self.move.inverse()


@pytest.mark.parametrize(
    ("fault", "move", "shape"),
    [
        ("inverse", Permute((1, 2, 0)), (3, 3, 3)),
        ("inverse", Fold(0, (2, 3), (1, 0)), (6,)),
        ("order", Split(0, (2, 2)), (4,)),
        ("order", Unstack(0, 2), (2, 3)),
        ("dtype", Permute((1, 0)), (3, 2)),
    ],
)
def test_a_faulty_move_is_seen(fault, move, shape):
    arrays = (np.random.default_rng(0).normal(size=shape).astype(np.float32),)
    assert same(move.inverse()(move(arrays)), arrays)
    broken = Faulty(move, fault)
    assert not same(broken.inverse()(broken(arrays)), arrays)


def test_what_equals_but_differs_in_bits_is_not_the_same():
    assert not same((np.array([0.0]),), (np.array([-0.0]),))
    assert same((np.array([np.nan]),), (np.array([np.nan]),))


@pytest.mark.parametrize("move", [Join(0, (2, 2)), Split(0, (2, 2)), Fold(0, (2, 2), (1, 0))])
def test_a_message_names_the_move_and_what_came(move):
    with pytest.raises(WeightsMismatch, match=r"(join|split|fold)\(axis 0.*\(5,\)"):
        move.shapes(((5,),) * (2 if isinstance(move, Join) else 1))
