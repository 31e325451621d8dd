"""Expressions are compared by structure, and names are checked."""

from __future__ import annotations

import math

import pytest

from port.translation.ir import syntax
from port.translation.ir.origin import AttributeOf, LiteralAt, WorkedOut
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.syntax import parsed

NUMBERS = (0, 0.0, -0.0, False, 1, 1.0, True, 1j, None, "1", b"1", ..., math.inf, math.nan)


def test_each_constant_is_like_itself_alone() -> None:
    for number, one in enumerate(NUMBERS):
        for other_number, other in enumerate(NUMBERS):
            assert (syntax.Const(one) == syntax.Const(other)) == (number == other_number), (one, other)
    assert len({syntax.Const(number) for number in (*NUMBERS, *NUMBERS)}) == len(NUMBERS)
    assert syntax.Const(1) != 1


def test_the_same_structure_is_equal_and_has_one_hash() -> None:
    one, other = (
        parsed("f(x[:, 1:], k=2) if a < b <= c else lambda x: -x"),
        parsed("f(x[:,1:],k=2) if a<b<=c else (lambda x: -x)"),
    )
    assert one == other and hash(one) == hash(other)
    for text in ("f(x, y)", "f(y, x)", "f(x, k=y)", "f(x, *y)", "f((x, y))", "f([x, y])", "g(x, y)"):
        assert (parsed(text) == parsed("f(x, y)")) == (text == "f(x, y)")


def test_what_stands_for_something_is_no_name() -> None:
    leaves = {syntax.Name("x"), syntax.Use("x"), syntax.Attr("x"), syntax.Attr("", "x"), syntax.Hole("x")}
    assert len(leaves) == 5
    assert syntax.Item(syntax.Use("x"), syntax.Const(0)) != syntax.Subscript(syntax.Use("x"), syntax.Const(0))


@pytest.mark.parametrize("text", ["%x", "@layer|", "# a comment", "<0>", "x.y", "f(x)", ""])
def test_no_meaning_in_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        syntax.Name(text)


@pytest.mark.parametrize("text", ["x = 1", "", "# one\n# two"])
def test_a_comment_is_a_line_of_comment(text: str) -> None:
    with pytest.raises(ValueError, match="is not a comment line"):
        syntax.Comment(text)


def test_where_a_number_comes_from_tells_no_two_apart_and_is_kept() -> None:
    written = LiteralAt(3, SourceLocation("net.py", 3))
    heads = syntax.Const(8, origin=WorkedOut("//", (AttributeOf("attention", "heads"), written)))
    assert heads == syntax.Const(8) and hash(heads) == hash(syntax.Const(8)) and heads.origin != syntax.Const(8).origin
    call = syntax.Call(syntax.Name("f"), (syntax.Name("x"), heads))
    made = syntax.transformed(call, lambda node: syntax.Name("y") if node == syntax.Name("x") else node)
    assert isinstance(made.args[1], syntax.Const) and made.args[1].origin is heads.origin
