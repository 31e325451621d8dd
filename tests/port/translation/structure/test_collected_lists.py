"""Numbered variables that are read late become items of a list."""

from __future__ import annotations

import ast

import pytest

from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.structure.collected_lists import with_lists
from port.translation.structure.written_body import Body


def _body(*lines: str) -> Body:
    *given, last = [ast.parse(line).body[0] for line in lines]
    statements = []
    for each in given:
        assert isinstance(each, ast.Assign)
        target, value = (syntax.parsed(ast.unparse(part)) for part in (each.targets[0], each.value))
        statements.append(syntax.Assign(target, value))
    assert isinstance(last, ast.Return) and last.value is not None
    return Body(("x",), tuple(statements), syntax.parsed(ast.unparse(last.value)))


def _text(body: Body) -> list[str]:
    assert body.returns is not None
    return text_of(*body.statements, syntax.Return(body.returns)).splitlines()


def test_what_is_read_late_is_read_off_the_list() -> None:
    (made, length), *_ = with_lists(
        _body("x = f(x)", "x2 = g(x)", "x3 = g(x2)", "y = h(x3) + x2", "return y + x"), "skips"
    )
    assert length == 2
    assert _text(made) == [
        "skips = []",
        "x = f(x)",
        "skips.append(x)",
        "x = g(x)",
        "skips.append(x)",
        "x = g(x)",
        "y = h(x) + skips[1]",
        "return y + skips[0]",
    ]


def test_a_list_of_all_of_them_is_the_list() -> None:
    (made, length), *_ = with_lists(_body("x = f(x)", "x2 = f(x)", "return [x, x2]"), "found")
    assert length == 2
    assert _text(made)[-1] == "return found"


def test_a_list_of_another_of_the_same_name_is_not_the_list() -> None:
    body = _body("x = f(x)", "x2 = f(x)", "x3 = g([x2, x])", "x2 = f(x3)", "return [x, x2]")
    for made, _ in with_lists(body, "found"):
        assert _text(made)[-1] != "return found"


@pytest.mark.parametrize(
    "lines",
    [
        ("x = f(x)", "x = g(x)", "return x"),
        ("x = f(x)", "x2 = g(x)", "return x2 + x"),
        ("x, x2 = f(x)", "x3 = g(x)", "return x3 + x2 + x"),
        ("in1 = f(x)", "in2 = g(in1)", "in3 = g(in2)", "return in3 + in2 + in1"),
    ],
    ids=["nothing is read late", "one alone is", "one of several results", "called by a keyword without its number"],
)
def test_other_bodies_stay_as_they_are(lines: tuple[str, ...]) -> None:
    assert not list(with_lists(_body(*lines), "skips"))
