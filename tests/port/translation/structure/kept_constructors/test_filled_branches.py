"""Merge branches that one construction reaches and another does not into one function."""

from __future__ import annotations

import ast

import pytest

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.kept_constructors.filled_branches import NOT_REACHED, with_branches_of

RAISE = f"raise NotImplementedError({NOT_REACHED.format(name='Net')!r})"
ONE = f"""\
if deep:
    # two of them
    self.layer = _part0_(width)
    self.more = _part1_
else:
    {RAISE}
for each in range(3):
    if each:
        {RAISE}
return self.layer"""
OTHER = f"""\
if deep:
    {RAISE}
else:
    # one
    self.layer = _part0_
    # and none
    self.more = _part1_(None)
for each in range(3):
    if each:
        {RAISE}
return self.layer"""
BOTH = f"""\
if deep:
    # two of them
    self.layer = _part0_(width)
    self.more = _part1_
else:
    # one
    self.layer = _part2_
    # and none
    self.more = _part3_(None)
for each in range(3):
    if each:
        {RAISE}
return self.layer"""


def function(text: str, *parts: str) -> syntax.FunctionDef:
    return syntax.FunctionDef("__init__", (), (syntax.Lines(text, tuple(map(code, parts))),))


def test_what_the_other_reaches_stands_in_the_place_of_the_refusal() -> None:
    (made,) = with_branches_of(function(ONE, "a", "b"), function(OTHER, "c", "d")).body
    assert isinstance(made, syntax.Lines)
    assert made.text == BOTH
    assert made.parts == tuple(map(code, "abcd"))
    ast.parse(made.text)


@pytest.mark.parametrize(
    "other",
    [
        ONE,  # it reaches the same
        OTHER.replace("return self.layer", "self.last = 3\nreturn self.layer"),  # they are told apart by more
        OTHER.replace("if deep:", "while deep:"),
    ],
)
def test_a_function_that_adds_nothing_leaves_it_as_it_is(other: str) -> None:
    one = function(ONE, "a", "b")
    made = with_branches_of(one, function(other, "c", "d"))
    assert made is one or made == one


def test_a_refusal_of_the_originals_own_stays() -> None:
    own = ONE.replace(RAISE, "raise NotImplementedError('not yet')")
    assert with_branches_of(function(own, "a", "b"), function(OTHER, "c", "d")) == function(own, "a", "b")
