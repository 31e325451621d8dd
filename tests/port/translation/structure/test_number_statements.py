"""A function's condition, and the original's statements that compute its operands."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.codegen.statements import text_of
from port.translation.structure.branches import branches_of
from port.translation.structure.number_statements import AskedNumbers, NoNumbers, asked_by


def shifting(x: Any, window: list[int], shift: list[int], mask: Any = None) -> Any:
    B, T, C = x.shape
    unread = T * C
    shift = shift.copy()
    if window[0] >= T:
        shift[0] = 0
        unread = 3
    else:
        unread = B
    total = window[0]
    total += 1
    if sum(shift) > 0:
        x = x * total
    if mask is not None and total > 2:
        x = x * unread
    if x.dim() == 3:
        x = x + 1
    if mask:
        x = x + 2
    for length in window:
        if length > 2:
            x = x + 3
    if length == 5:
        x = x + 4
    if unknown(total):
        x = x + 5
    return x


def unknown(number: int) -> bool:
    return number > 3


def _asked(text: str) -> AskedNumbers:
    (test,) = [each for each in branches_of(shifting).tests if each.text == text]
    return asked_by(shifting, test, {"B", "T", "C"}, {"x", "mask"})


def test_the_statements_before_a_condition_are_those_that_it_depends_on() -> None:
    asked = _asked("sum(shift) > 0")
    before = [text_of(each.statement) for each in asked.before]
    assert before == ["shift = shift.copy()", "if window[0] >= T:\n    shift[0] = 0"]
    assert text_of(asked.before[0].statement) == "shift = shift.copy()" and asked.read == {"shift"}
    assert [each.assigned for each in asked.before] == [{"shift"}, {"shift"}]
    assert asked.before[1].read >= {"window", "T", "shift"}


def test_what_is_given_or_not_is_asked_of_tensors_too() -> None:
    asked = _asked("mask is not None and total > 2")
    assert [text_of(each.statement) for each in asked.before] == ["total = window[0]", "total = total + 1"]
    assert asked.read == {"mask", "total"}


@pytest.mark.parametrize("text", ["x.dim() == 3", "mask", "length > 2", "length == 5", "unknown(total)"])
def test_a_condition_of_something_else_is_not_said(text: str) -> None:
    with pytest.raises(NoNumbers):
        _asked(text)
