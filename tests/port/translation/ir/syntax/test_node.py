"""Traversals of nodes: their order, and no copies of unchanged nodes."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.ir.syntax import children, parsed, source, transformed, walk, with_parts

EXAMPLE = parsed("f(a + b, *c, key=d[e:, 0])[g]")


def named(node: syntax.Node) -> str:
    return node.id if isinstance(node, syntax.Name) else type(node).__name__


def test_a_walk_goes_from_left_to_right_and_from_outside_in() -> None:
    kinds = list(map(named, walk(EXAMPLE)))
    assert [kind for kind in kinds if len(kind) == 1] == ["f", "a", "b", "c", "d", "e", "g"]
    assert kinds[:3] == ["Subscript", "Call", "f"]
    assert list(map(named, walk(None, syntax.Name("x"), None, syntax.Name("y")))) == ["x", "y"]


def test_the_nodes_right_beneath_one() -> None:
    assert list(map(named, children(parsed("f(x, k=y)")))) == ["f", "x", "Keyword"]
    assert children(syntax.Slice(None, syntax.Const(1))) == [syntax.Const(1)]
    assert children(syntax.Use("x")) == []


def test_what_does_not_change_is_the_same_object() -> None:
    assert transformed(EXAMPLE, lambda node: node) is EXAMPLE
    pair = syntax.Tuple((parsed("f(x)"), parsed("g(y)")))
    made = transformed(pair, lambda node: syntax.Name("z") if node == syntax.Name("y") else node)
    assert source(made) == "(f(x), g(z))"
    assert made.elts[0] is pair.elts[0]
    assert source(pair) == "(f(x), g(y))"


def test_the_innermost_is_replaced_first() -> None:
    seen: list[str] = []
    transformed(parsed("f(x + y)"), lambda node: (seen.append(named(node)), node)[1])
    assert seen == ["f", "x", "y", "BinOp", "Call"]


def test_parts_alone() -> None:
    made = with_parts(parsed("-f(x)"), lambda part: syntax.Name("z"))
    assert source(made) == "-z"


def test_statements_are_walked_as_expressions_are() -> None:
    inner = syntax.Assign(syntax.Name("y"), parsed("x + 1"))
    branch = syntax.If(parsed("flag"), (inner,), (syntax.Return(parsed("x")),))
    assert [node.id for node in walk(branch) if isinstance(node, syntax.Name)] == ["flag", "y", "x", "x"]
    made = transformed(branch, lambda node: syntax.Name("z") if node == syntax.Name("x") else node)
    assert made.orelse == (syntax.Return(syntax.Name("z")),) and made != branch


def test_nodes_do_not_change() -> None:
    with pytest.raises(AttributeError):
        syntax.Name("x").id = "y"  # type: ignore[misc]
