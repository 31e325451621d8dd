"""Arithmetic on numbers with origins."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest

from port.translation.frontend.origins.arithmetic import called, combined, signed
from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import AttributeOf, WorkedOut

DIM, HEADS = Resolved(21, AttributeOf("", "dim")), Resolved(3, AttributeOf("", "heads"))
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
    assert combined(kind, DIM, HEADS) == Resolved(value, WorkedOut(name, BOTH))  # type: ignore[arg-type]


def test_without_the_origin_of_each_only_the_value_is_known() -> None:
    assert combined(ast.Mult(), DIM, Resolved(2)) == Resolved(42)
    assert combined(ast.Mult(), DIM, Resolved(MISSING, HEADS.origin)) == Resolved()


def test_what_cannot_be_worked_out_is_not_known() -> None:
    assert combined(ast.FloorDiv(), DIM, Resolved(0)) == combined(ast.Pow(), DIM, Resolved(10**9)) == Resolved()
    assert combined(ast.BitXor(), DIM, HEADS) == Resolved()
    assert called(math.sqrt, [Resolved(-3)]) == called(len, [DIM]) == called([], [DIM]) == Resolved()


def test_functions_and_signs() -> None:
    assert called(math.sqrt, [HEADS]) == Resolved(math.sqrt(3), WorkedOut("math.sqrt", (HEADS.origin,)))  # type: ignore[arg-type]
    assert called(max, [DIM, HEADS]) == Resolved(21, WorkedOut("max", BOTH))  # type: ignore[arg-type]
    assert signed(ast.USub(), DIM) == Resolved(-21, WorkedOut("-", (DIM.origin,)))  # type: ignore[arg-type]


def test_tuples_stand_one_behind_the_other() -> None:
    made = combined(ast.Add(), Resolved(items=(DIM,)), Resolved((3, 5)))
    assert made.each_item() == (DIM, Resolved(3), Resolved(5))
