"""Origins as expressions, which evaluate to the number."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from port.translation.ir import syntax
from port.translation.ir.origin import ConstructorArgument, LiteralAt, Origin, ShapeRead, WorkedOut, said
from port.translation.ir.origin_expression import expression_of, leaves_of, value_of, with_leaves
from port.translation.ir.origin_numbers import origin_of, with_origin

DIM, HEADS = ConstructorArgument(0, "dim"), ConstructorArgument(0, "heads")
HEAD_DIM = WorkedOut("//", (DIM, HEADS))


def named(origin: Origin) -> syntax.Expr | None:
    return syntax.Name(origin.argument) if isinstance(origin, ConstructorArgument) else None


def text(origin: Origin) -> str | None:
    made = expression_of(origin, named)
    return None if made is None else syntax.source(made)


@pytest.mark.parametrize(
    ("origin", "written"),
    [
        (LiteralAt(3), "3"),
        (LiteralAt(True), "True"),
        (DIM, "dim"),
        (HEAD_DIM, "dim // heads"),
        (WorkedOut("**", (HEAD_DIM, LiteralAt(-0.5))), "(dim // heads) ** -0.5"),
        (WorkedOut("-", (DIM,)), "-dim"),
        (WorkedOut("-", (DIM, WorkedOut("-", (HEADS, LiteralAt(1))))), "dim - (heads - 1)"),
        (WorkedOut("math.sqrt", (DIM,)), "math.sqrt(dim)"),
        (WorkedOut("max", (DIM, LiteralAt(8))), "max(dim, 8)"),
        (WorkedOut("int", (WorkedOut("*", (DIM, LiteralAt(0.5))),)), "int(dim * 0.5)"),
    ],
)
def test_how_it_reads(origin: Origin, written: str) -> None:
    assert text(origin) == written


def test_nothing_is_said_of_what_cannot_be_said() -> None:
    unknown = ShapeRead("x", 1)
    assert text(unknown) is None
    assert text(WorkedOut("*", (DIM, unknown))) is None
    assert text(WorkedOut("math.sqrt", (WorkedOut("+", (unknown, LiteralAt(1))),))) is None


def test_an_operator_of_three_is_none() -> None:
    with pytest.raises(ValueError, match="3 operands"):
        text(WorkedOut("+", (DIM, DIM, DIM)))


def test_the_leaves() -> None:
    assert list(leaves_of(DIM)) == [DIM]
    assert list(leaves_of(WorkedOut("*", (HEAD_DIM, LiteralAt(2))))) == [DIM, HEADS, LiteralAt(2)]


def test_other_leaves() -> None:
    numbers: dict[Origin, Origin] = {DIM: LiteralAt(12), HEADS: LiteralAt(3)}
    made = with_leaves(WorkedOut("math.sqrt", (HEAD_DIM,)), lambda leaf: numbers.get(leaf, leaf))
    assert made == WorkedOut("math.sqrt", (WorkedOut("//", (LiteralAt(12), LiteralAt(3))),))
    assert value_of(made) == 2.0
    assert with_leaves(HEAD_DIM, lambda leaf: leaf) == HEAD_DIM


def test_a_value_is_of_literals_alone() -> None:
    assert value_of(LiteralAt(0)) == 0
    assert value_of(HEAD_DIM) is value_of(WorkedOut("*", (DIM, LiteralAt(0)))) is None
    assert value_of(WorkedOut("//", (LiteralAt(3), LiteralAt(0)))) is None
    assert value_of(WorkedOut("math.sqrt", (LiteralAt(-1),))) is None


OPERATORS = ("+", "-", "*", "//", "%")


@given(st.lists(st.tuples(st.sampled_from(OPERATORS), st.integers(-9, 9), st.booleans()), max_size=5))
def test_what_is_written_is_worth_the_same(steps: list[tuple[str, int, bool]]) -> None:
    number = with_origin(12, DIM)
    for operator, other, is_first in steps:
        expression = f"other {operator} number" if is_first else f"number {operator} other"
        try:
            number = eval(expression, {"number": number, "other": other})
        except ZeroDivisionError:
            return
    origin = origin_of(number)
    if origin is not None:
        assert eval(text(origin) or "", {"math": math, "dim": 12}) == number
        assert "dim" in said(origin)
        assert value_of(with_leaves(origin, lambda leaf: LiteralAt(12) if leaf == DIM else leaf)) == number
