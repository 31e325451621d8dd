"""Moves as data: read back as they were, completed from the shapes at hand, refused with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.errors import WeightsMismatch
from port.moves import Copy, Fold, Join, Merge, Pad, Permute, Reshape, Shapes, Split, Stack, Sum, Tie, Unpad, Unstack
from port.moves.spec import fold_from, move_from, moves_from, spec_of

LOOSE = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    "permute",
    "reshape",
    "fold",
    "flip",
    "split",
    "join",
    "stack",
    "unstack",
    "tie",
    "copy",
    "sum",
    "each",
    "pad",
    "unpad",
)


@LOOSE
@given(data=st.data(), others=st.lists(st.lists(st.integers(0, 3), max_size=2).map(tuple), max_size=2).map(tuple))
def test_a_move_is_read_back_whatever_the_shapes(data, others, any_moves):
    move, shapes = data.draw(any_moves)
    assert move_from(spec_of(move), shapes) == move
    assert move_from(spec_of(move), None) == move
    if "each" not in spec_of(move):
        assert move_from(spec_of(move), others) == move


@LOOSE
@given(name=st.sampled_from(NAMES), value=PLAIN, shapes=st.sampled_from([None, (), ((6, 4),), ((2,), (2,))]))
def test_anything_else_is_read_or_refused_by_name(name, value, shapes):
    try:
        move_from({name: value}, shapes)
    except WeightsMismatch as error:
        assert str(error)


@pytest.mark.parametrize(
    ("spec", "shapes", "move"),
    [
        ({"permute": [1, 0]}, ((2, 3),), Permute((1, 0))),
        ({"reshape": [4, -1, 16]}, ((64, 8),), Reshape((64, 8), (4, 8, 16))),
        ({"reshape": [64, 4, 16]}, ((64, 64),), Reshape((64, 64), (64, 4, 16))),
        ({"fold": [512, 7, 7]}, ((10, 25088),), Fold(1, (512, 7, 7), (1, 2, 0))),
        ({"split": 3}, ((12, 2),), Split(0, (4, 4, 4))),
        ({"split": {"axis": 1, "parts": 2}}, ((12, 2),), Split(1, (1, 1))),
        ({"split": {"axis": 0, "sizes": [8, 4, 4]}}, None, Split(0, (8, 4, 4))),
        ({"join": 1}, ((2, 3), (2, 5)), Join(1, (3, 5))),
        ({"stack": 0}, ((2, 3),) * 4, Stack(0, 4)),
        ({"unstack": 1}, ((2, 3),), Unstack(1, 3)),
        ({"tie": True}, ((2,),) * 3, Tie(3)),
        ({"copy": 2}, None, Copy(2)),
        ({"sum": True}, ((2,),) * 2, Sum(2)),
        ({"pad": 64}, ((50, 8),), Pad(0, 50, 64)),
        ({"pad": {"axis": 1, "to": 64, "value": -1e9}}, ((8, 50),), Pad(1, 50, 64, -1e9)),
        ({"merge": 2}, None, Merge(2.0)),
        ({"unpad": 50}, ((64, 8),), Unpad(0, 64, 50)),
        ({"unpad": {"from": 64, "to": 50}}, None, Unpad(0, 64, 50)),
    ],
)
def test_what_a_person_leaves_out_is_filled_in(spec, shapes, move):
    assert move_from(spec, shapes) == move


def test_each_move_is_completed_by_the_shapes_that_the_one_before_gives():
    moves = moves_from([{"split": 3}, {"permute": [1, 0]}, {"reshape": [-1, 2, 2]}], ((12, 6),))
    assert moves == (Split(0, (4, 4, 4)), Permute((1, 0)), Reshape((6, 4), (6, 2, 2)))


@pytest.mark.parametrize(
    ("spec", "shapes", "message"),
    [
        ({"permut": [1, 0]}, None, "unknown move 'permut'; there are: permute"),
        ({"permute": "10"}, None, "list of whole numbers, not '10'"),
        ({"permute": [1.0, 0]}, None, "whole number, not 1.0"),
        ({"permute": [True, False]}, None, "whole number, not True"),
        ({"permute": [2, 0]}, None, "each axis"),
        ({"permute": [1, 0], "flip": [0]}, None, "one name and its value"),
        ("permute", None, "one name and its value"),
        ({"split": 5}, ((12,),), "12 elements along axis 0 cannot be split into 5 equal parts"),
        ({"split": 0}, ((12,),), "into 0 equal parts"),
        ({"split": 3}, None, "not known here; write its sizes or count out"),
        ({"split": {"axis": 0}}, ((12,),), "'parts' is missing"),
        ({"reshape": [5, -1]}, ((12,),), "12 elements do not fill"),
        ({"reshape": [0, -1]}, ((0,),), "do not fill"),
        ({"reshape": [-1, -1]}, ((12,),), "of 0 or more"),
        ({"stack": 0}, None, "not known here; write its sizes or count out"),
        ({"pad": 64}, None, "not known here; write its sizes or count out"),
        ({"pad": {"axis": 0}}, ((50,),), "'to' is missing"),
        ({"pad": {"to": 64, "value": "0"}}, ((50,),), "the padding's value is a number, not '0'"),
        ({"merge": True}, None, "the scaling is a number, not True"),
        ({"unpad": 64}, ((50,),), "must not be shorter than the other, got 50 for 64"),
        ({"unstack": 3}, ((2, 2),), "out of range"),
        ({"each": [{"takes": 1, "moves": []}]}, None, "'gives' is missing"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(spec, shapes: Shapes | None, message):
    with pytest.raises(WeightsMismatch, match=re.escape(message)):
        move_from(spec, shapes)


def test_moves_are_a_list():
    with pytest.raises(WeightsMismatch, match="moves are a list"):
        moves_from({"permute": [1, 0]}, None)


def test_a_move_of_another_kind_has_no_written_form():
    @dataclass(frozen=True)
    class Own:
        pass

    with pytest.raises(WeightsMismatch, match=r"Own has no written form"):
        spec_of(Own())


def test_a_fold_is_channels_first_to_channels_last():
    assert fold_from((3, 4, 5)) == Fold(1, (3, 4, 5), (1, 2, 0))
    assert fold_from([3]) == Fold(1, (3,), (0,))
