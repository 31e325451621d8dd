"""Numbers that carry their origins."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from port.translation.ir.expr import literal
from port.translation.ir.origin import AttributeOf, LiteralAt, WorkedOut, said
from port.translation.ir.origin_numbers import OriginFloat, OriginInt, origin_of, plain, with_origin

DIM, SCALE = AttributeOf("", "dim"), AttributeOf("", "scale")


def dim(value: int = 12) -> Any:
    return with_origin(value, DIM)


def test_a_number_is_pythons_own_to_whoever_takes_it() -> None:
    number, fraction = dim(), with_origin(0.5, SCALE)
    assert (number, fraction) == (12, 0.5)
    assert isinstance(number, int)
    assert isinstance(fraction, float)
    assert {12: "found"}[number] == "found"
    assert f"{number} {fraction} {number!r}" == "12 0.5 12"
    assert list(range(with_origin(2, DIM))) == [0, 1]


def test_what_is_worked_out_of_it_remembers_how() -> None:
    assert said(origin_of(dim() // 3)) == "self.dim // 3"
    assert said(origin_of(4 * dim())) == "4 * self.dim"
    assert said(origin_of((dim() // 4) ** -0.5)) == "(self.dim // 4) ** -0.5"
    assert said(origin_of(-dim())) == "-self.dim"
    assert said(origin_of(math.ceil(dim() * 0.3))) == "math.ceil(self.dim * 0.3)"
    assert origin_of(dim() // 3) == WorkedOut("//", (DIM, LiteralAt(3)))
    assert type(dim() / 5) is OriginFloat
    assert type(dim() * 2) is OriginInt


def test_what_is_no_number_forgets_it() -> None:
    assert origin_of(dim() < 13) is None
    flag = with_origin(True, DIM)
    assert (bool(flag), origin_of(flag), repr(flag), plain(flag)) == (True, DIM, "True", True)
    assert origin_of(not flag) is None
    assert with_origin("text", DIM) == "text"
    assert with_origin(3, None).__class__ is int


def test_a_long_calculation_is_forgotten() -> None:
    number = dim()
    for _ in range(20):
        number = number + 1
    assert number == 32
    assert origin_of(number) is None


def test_a_copy_remembers_it_too() -> None:
    for made in (copy.deepcopy(dim()), pickle.loads(pickle.dumps(dim()))):
        assert (made, origin_of(made)) == (12, DIM)


def test_a_constant_of_it_is_the_same_and_knows_the_origin() -> None:
    made = literal((dim(), 3))
    assert made == literal((12, 3))
    assert [item.origin for item in made.elts] == [DIM, None]
    assert type(made.elts[0].value) is int


OPERATORS = ("+", "-", "*", "/", "//", "%")


@given(st.integers(-50, 50), st.one_of(st.integers(-50, 50), st.floats(-50, 50)), st.sampled_from(OPERATORS))
def test_arithmetic_gives_what_plain_numbers_give(one: int, other: Any, operator: str) -> None:
    for left, right in ((one, other), (other, one)):
        expression = f"left {operator} right"
        try:
            expected = eval(expression, {"left": left, "right": right})
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                eval(expression, {"left": with_origin(left, DIM), "right": right})
            continue
        for kept in (
            {"left": with_origin(left, DIM), "right": right},
            {"left": left, "right": with_origin(right, DIM)},
        ):
            made = eval(expression, kept)
            assert plain(made) == expected
            assert type(plain(made)) is type(expected)
            # Python asks a float first, which knows nothing of origins: 0.5 * dim forgets, dim * 0.5 does not.
            is_asked = type(kept["left"]) is not float or type(kept["right"]) is OriginFloat
            assert (origin_of(made) is not None) is is_asked
