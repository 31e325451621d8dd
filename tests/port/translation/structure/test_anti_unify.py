"""Several sources as one with holes: filled with each source's numbers, it is that source again."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.structure.anti_unify import Differ, Hole, Holes, unified, with_names


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def of(*texts: str, where: tuple[str, ...] = ()) -> tuple[str, list[Hole]]:
    holes = Holes()
    made = unified([parsed(text) for text in texts], holes, where)
    return ast.unparse(made), holes.found


def test_a_number_that_differs_is_a_hole_and_the_keyword_that_it_stands_in_is_known() -> None:
    text, holes = of("Conv(3, 8, strides=1)", "Conv(3, 8, strides=2)", where=("conv",))
    assert text == "Conv(3, 8, strides=<0>)"
    assert holes == [Hole((1, 2), ("conv", "strides"))]


def test_equal_numbers_share_a_hole() -> None:
    text, holes = of("f(4, 6, 4)", "f(5, 6, 5)")
    assert text == "f(<0>, 6, <0>)"
    assert len(holes) == 1
    text, holes = of("f(4, 4)", "f(5, 6)")
    assert text == "f(<0>, <1>)"


def test_numbers_of_another_kind_are_others() -> None:
    assert of("f(1, 1.0, True)", "f(2, 2.0, False)")[0] == "f(<0>, <1>, <2>)"
    assert of("f(1)", "f(True)") == ("f(<0>)", [Hole((1, True), ())])
    assert of("f(-1)", "f(1)") == ("f(<0>)", [Hole((-1, 1), ())])
    assert of("f(None, 'a')", "f(3, 'b')")[1] == [Hole((None, 3), ()), Hole(("a", "b"), ())]


@pytest.mark.parametrize(
    ("one", "other"),
    [("f(1)", "g(1)"), ("f(1)", "f(1, 2)"), ("f(1)", "f(x)"), ("f(a=1)", "f(b=1)"), ("-x", "-y"), ("x + 1", "x - 1")],
)
def test_what_differs_in_more_than_numbers(one: str, other: str) -> None:
    with pytest.raises(Differ):
        of(one, other)


def test_no_hole_is_left_of_an_attempt() -> None:
    holes = Holes()
    with pytest.raises(Differ):
        unified([ast.parse("f(2, x)"), ast.parse("f(3, y)")], holes)
    assert holes.found == []


_NUMBERS = st.integers(-9, 9) | st.booleans() | st.none() | st.sampled_from([0.5, -1.5, "a"])


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[_NUMBERS] * n), min_size=1, max_size=4)))
def test_filled_with_its_numbers_it_is_each_source_again(rows: list[tuple[object, ...]]) -> None:
    texts = [f"f({', '.join(map(repr, row))}, end=x)" for row in rows]
    holes = Holes()
    made = unified([parsed(text) for text in texts], holes)
    for number, text in enumerate(texts):
        filling = {f"<{k}>": parsed(repr(hole.values[number])) for k, hole in enumerate(holes.found)}
        assert ast.unparse(with_names(made, filling)) == ast.unparse(parsed(text))


def test_names_for_holes() -> None:
    made = with_names(parsed("f(x, y)"), {"x": "wide", "y": parsed("self.deep")})
    assert ast.unparse(made) == "f(wide, self.deep)"
