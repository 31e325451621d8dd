"""The variables that statements read before they assign them."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.structure.first_reads import first_reads

X, MASK, POSITIONS, ROW = (syntax.Name(name) for name in ("x", "mask", "positions", "row"))
SET = syntax.Assign(POSITIONS, syntax.Call(syntax.Name("arange"), (X,)))
READ = syntax.Assign(X, syntax.BinOp(X, "+", POSITIONS))


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        ([READ], True),
        ([SET, READ], False),
        ([READ, SET], True),
        ([syntax.If(MASK, (SET,)), READ], True),
        ([syntax.If(MASK, (SET,), (SET,)), READ], False),
        ([syntax.If(MASK, (SET, READ))], False),
        ([syntax.For(ROW, X, (SET, READ))], False),
        ([syntax.For(ROW, X, (SET,)), READ], True),
        ([syntax.Assign(syntax.Tuple((POSITIONS, ROW)), X), READ], False),
        ([syntax.Assign(syntax.Subscript(POSITIONS, X), X)], True),
    ],
)
def test_a_variable_is_read_first_where_it_may_have_no_value(statements: list[syntax.Stmt], read: bool) -> None:
    found = first_reads(statements, X)
    assert ("positions" in found) is read
    assert "x" in found
    assert "row" not in found
