"""Known numbers of steps, and their origins."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch import nn

from port.translation.ir.graph import LayerCall, Operation, arguments_of, numbers_of
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.number import KnownNumber, agreed, each_number, is_same, origin_at
from port.translation.ir.origin import AttributeOf, LiteralAt
from port.translation.ir.source_location import SourceLocation

from .graphs import HERE, X, Y

HEADS, LITERAL = AttributeOf("", "heads"), LiteralAt(2, SourceLocation("net.py", 3), 4)


def test_numbers_are_found_in_trees_with_the_way_to_each() -> None:
    tree = {"size": [X, 3, (5, True)], "ends": slice(1, None, 2), "dtype": None, "mode": "same"}
    assert dict(each_number(tree)) == {
        ("size", 1): 3,
        ("size", 2, 0): 5,
        ("size", 2, 1): True,
        ("ends", "start"): 1,
        ("ends", "step"): 2,
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (3, 3, True),
        (1, 1.0, True),
        (True, 1, False),
        (True, True, True),
        (3, 4, False),
        (math.nan, math.nan, True),
        (3, X, False),
        ("3", "3", False),
    ],
)
def test_true_is_not_1_and_1_is_as_good_as_a_float(one: Any, other: Any, same: bool) -> None:
    assert is_same(one, other) is same


def test_an_origin_counts_while_the_number_is_the_one_that_it_was_found_for() -> None:
    numbers = {("size", 1): KnownNumber(3, HEADS)}
    assert origin_at(numbers, ("size", 1), 3) == HEADS
    assert origin_at(numbers, ("size", 1), 5) is None
    assert origin_at(numbers, ("size", 1), X) is None
    assert origin_at(numbers, ("size", 0), 3) is None


def test_several_steps_agree_on_what_all_of_them_say() -> None:
    first = {
        ("size", 0): KnownNumber(3, HEADS),
        ("size", 1): KnownNumber(5, LITERAL),
        ("dim",): KnownNumber(2, LITERAL),
    }
    second = {("size", 0): KnownNumber(3, HEADS), ("size", 1): KnownNumber(5, HEADS)}
    assert agreed([first, second]) == {("size", 0): KnownNumber(3, HEADS)}
    assert agreed([first]) == first


def test_the_numbers_of_each_kind_of_step() -> None:
    view = Operation(
        "aten.view.default",
        {"self": X, "size": [3, 5]},
        (Y,),
        False,
        HERE,
        numbers={("size", 0): KnownNumber(3, HEADS)},
    )
    assert [*numbers_of(view)] == [(("size", 0), 3, HEADS), (("size", 1), 5, None)]
    layer = LayerCall(
        "attend", nn.Identity(), (X, 7), {"causal": True}, Y, HERE, numbers={("causal",): KnownNumber(True, LITERAL)}
    )
    assert arguments_of(layer) == {0: X, 1: 7, "causal": True}
    assert [*numbers_of(layer)] == [((1,), 7, None), (("causal",), True, LITERAL)]
    enter = ScopeEnter("block", 0, nn.Identity(), {"x": X, "scale": 1.5}, HERE, {("scale",): KnownNumber(1.5, LITERAL)})
    assert [*numbers_of(enter)] == [(("scale",), 1.5, LITERAL)]
    assert [*numbers_of(ScopeExit("block", 0, Y))] == []


def test_origins_are_of_no_account_to_whether_two_steps_are_equal() -> None:
    one = Operation(
        "aten.view.default", {"self": X, "size": [3]}, (Y,), False, HERE, numbers={("size", 0): KnownNumber(3, HEADS)}
    )
    assert one == Operation("aten.view.default", {"self": X, "size": [3]}, (Y,), False, HERE)
