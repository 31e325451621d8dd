"""Arithmetic on numbers with origins."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest

from port.translation.frontend.found import Found
from port.translation.frontend.frame_objects import MISSING
from port.translation.frontend.worked_out import called, combined, signed
from port.translation.ir.origin import AttributeOf, WorkedOut

DIM, HEADS = Found(21, AttributeOf("", "dim")), Found(3, AttributeOf("", "heads"))
BOTH = (DIM.origin, HEADS.origin)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ast.Add(), "+", 24),
        (ast.Sub(), "-", 18),
        (ast.Mult(), "*", 63),
        (ast.Div(), "/", 7.0),
        (ast.FloorDiv(), "//", 7),
        (ast.Mod(), "%", 0),
        (ast.Pow(), "**", 9261),
    ],
)
def test_operators(kind: Any, name: str, value: Any) -> None:
    assert combined(kind, DIM, HEADS) == Found(value, WorkedOut(name, BOTH))  # type: ignore[arg-type]


def test_without_the_origin_of_each_only_the_value_is_known() -> None:
    assert combined(ast.Mult(), DIM, Found(2)) == Found(42)
    assert combined(ast.Mult(), DIM, Found(MISSING, HEADS.origin)) == Found()


def test_what_cannot_be_worked_out_is_not_known() -> None:
    assert combined(ast.FloorDiv(), DIM, Found(0)) == combined(ast.Pow(), DIM, Found(10**9)) == Found()
    assert combined(ast.BitXor(), DIM, HEADS) == Found()
    assert called(math.sqrt, [Found(-3)]) == called(len, [DIM]) == called([], [DIM]) == Found()


def test_functions_and_signs() -> None:
    assert called(math.sqrt, [HEADS]) == Found(math.sqrt(3), WorkedOut("math.sqrt", (HEADS.origin,)))  # type: ignore[arg-type]
    assert called(max, [DIM, HEADS]) == Found(21, WorkedOut("max", BOTH))  # type: ignore[arg-type]
    assert signed(ast.USub(), DIM) == Found(-21, WorkedOut("-", (DIM.origin,)))  # type: ignore[arg-type]


def test_tuples_stand_one_behind_the_other() -> None:
    made = combined(ast.Add(), Found(items=(DIM,)), Found((3, 5)))
    assert made.each_item() == (DIM, Found(3), Found(5))
