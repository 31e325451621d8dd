"""Which form of a length is written, and which statements that name lengths remain."""

from __future__ import annotations

import pytest

from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.origin import AttributeOf, LengthOf, LiteralAt, NamedLength, Origin, ShapeRead, WorkedOut
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.said_lengths import said_with_names, settled, without_unread_lengths

HERE = SourceLocation("net.py", 3)
C = NamedLength("C", 12)


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (C, "C"),
        (WorkedOut("//", (C, LiteralAt(3, HERE))), "C // 3"),
        (WorkedOut("//", (C, LiteralAt(3))), None),  # a rule's own number
        (WorkedOut("//", (C, AttributeOf("", "heads"))), None),
        (LiteralAt(3, HERE), None),
        (ShapeRead("x", 1), None),
    ],
)
def test_what_names_alone_say(origin: Origin, text: str | None) -> None:
    made = said_with_names(origin)
    assert (made and syntax.source(made)) == text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (code("C // self.heads"), "C // self.heads"),
        (syntax.Const(4, origin=LiteralAt(4, HERE)), "4"),
        (syntax.Const(4, origin=WorkedOut("//", (C, AttributeOf("", "heads")))), "-1"),
        (syntax.Const(4, origin=LengthOf("x", 1, HERE)), "-1"),
        (syntax.Use("sym_size"), "-1"),
    ],
)
def test_what_is_left_unsaid_is_read(said: syntax.Expr, text: str) -> None:
    length = syntax.SaidLength(said, syntax.Const(-1), "key")
    assert syntax.source(settled(syntax.Tuple((length,)))) == f"({text},)"


def lines(text: str) -> tuple[syntax.Stmt, ...]:
    """Statements of the form ``a, b = value``, and ``if`` with one."""
    made: list[syntax.Stmt] = []
    for line in text.split("; "):
        test, _, statement = line.rpartition(": ")
        target, value = (code(part) for part in statement.split(" = "))
        assigned = syntax.Assign(target, value)
        made.append(syntax.If(code(test.removeprefix("if ")), (assigned,)) if test else assigned)
    return tuple(made)


@pytest.mark.parametrize(
    ("before", "returns", "after"),
    [
        ("B, T = x.shape; y = x + T", "y", "B, T = x.shape; y = x + T"),
        ("B, T = x.shape; y = x + 1", "y", "y = x + 1"),
        ("n = x.shape[0]; y = x + 1", "y + n", "n = x.shape[0]; y = x + 1"),
        # The name was reassigned: another value is read.
        ("n = x.shape[0]; n = f(x)", "n", "n = f(x)"),
        ("n = x.shape[0]; n = f(n)", "n", "n = x.shape[0]; n = f(n)"),
        ("n, m = x.shape[0], x.shape[2]; y = f(x)", "y", "y = f(x)"),
        ("if a: n = x.shape[0]; y = f(x)", "y", "y = f(x)"),
        ("if a: n = x.shape[0]; y = f(n)", "y", "if a: n = x.shape[0]; y = f(n)"),
        ("y = f(x)", "x", "y = f(x)"),  # it does more than read a shape
    ],
)
def test_names_that_nothing_reads_are_not_given(before: str, returns: str, after: str) -> None:
    kept = without_unread_lengths(lines(before), code(returns))
    assert text_of(*kept) == text_of(*lines(after))
