"""Anti-unification: filled with each source's numbers, the merged source equals that source."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir.expr import code, filled, literal
from port.translation.ir.origin import ConstructorArgument
from port.translation.ir.origin_numbers import origin_of, with_origin
from port.translation.ir.syntax import parsed, source
from port.translation.structure.anti_unify import Differ, Difference, Holes, unified, without_numbers


def of(*texts: str, where: tuple[str, ...] = ()) -> tuple[str, list[Difference]]:
    holes = Holes()
    made = unified([parsed(text) for text in texts], holes, where)
    return source(made), holes.found


def test_a_number_that_differs_is_a_hole_and_the_keyword_that_it_stands_in_is_known() -> None:
    text, holes = of("Conv(3, 8, strides=1)", "Conv(3, 8, strides=2)", where=("conv",))
    assert text == "Conv(3, 8, strides=<0>)"
    assert holes == [Difference((1, 2), ("conv", "strides"))]


def test_equal_numbers_share_a_hole() -> None:
    text, holes = of("f(4, 6, 4)", "f(5, 6, 5)")
    assert text == "f(<0>, 6, <0>)"
    assert len(holes) == 1
    text, holes = of("f(4, 4)", "f(5, 6)")
    assert text == "f(<0>, <1>)"


def test_numbers_of_another_kind_are_others() -> None:
    assert of("f(1, 1.0, True)", "f(2, 2.0, False)")[0] == "f(<0>, <1>, <2>)"
    assert of("f(1)", "f(True)") == ("f(<0>)", [Difference((1, True), ())])
    assert of("f(-1)", "f(1)") == ("f(<0>)", [Difference((-1, 1), ())])
    assert of("f(None, 'a')", "f(3, 'b')")[1] == [Difference((None, 3), ()), Difference(("a", "b"), ())]


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
        unified([parsed("f(2, x)"), parsed("f(3, y)")], holes)
    assert holes.found == []


_NUMBERS = st.integers(-9, 9) | st.booleans() | st.none() | st.sampled_from([0.5, -1.5, "a"])


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[_NUMBERS] * n), min_size=1, max_size=4)))
def test_filled_with_its_numbers_it_is_each_source_again(rows: list[tuple[object, ...]]) -> None:
    texts = [f"f({', '.join(map(repr, row))}, end=x)" for row in rows]
    holes = Holes()
    made = unified([parsed(text) for text in texts], holes)
    for number, text in enumerate(texts):
        filling = {str(k): literal(hole.values[number]) for k, hole in enumerate(holes.found)}
        assert filled(made, filling) == parsed(text)


def test_what_is_alike_but_for_numbers() -> None:
    def alike(one: str, other: str, *, none_too: bool = True) -> bool:
        made = [without_numbers(parsed(text), none_too=none_too) for text in (one, other)]
        return made[0] == made[1]

    assert alike("f(1, 'a', x)", "f(2.5, 'a', x)") and alike("f(None)", "f(3)")
    assert not alike("f(1, 'a')", "f(1, 'b')")
    assert not alike("f(1, x)", "f(1, y)")
    assert not alike("f(None)", "f(3)", none_too=False)


def test_a_number_remembers_where_it_comes_from() -> None:
    numbers = [with_origin(each, ConstructorArgument(0, name)) for each, name in ((0.5, "std"), (0.25, "other"))]
    holes = Holes()
    made = unified([code("nnx.initializers.normal(std)", std=number) for number in numbers], holes, ("weight",))
    assert source(made) == "nnx.initializers.normal(<0>)"
    assert holes.found == [Difference((0.5, 0.25), ("weight", "std"))]
    assert [type(value) for value in holes.found[0].values] == [float, float]
    assert list(map(origin_of, holes.found[0].numbers)) == list(map(origin_of, numbers))
