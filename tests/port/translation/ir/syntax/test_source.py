"""Text to nodes and back: Python parses both to the same tree."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.pairs.ops import OPERATORS
from port.translation.ir import syntax
from port.translation.ir.syntax import compiled, parsed, source

TEXTS = (
    "x",
    "f(x, *y, key=z, **options)",
    "x.y[0, ..., 1:, ::2, None]",
    "(a, (b,), [c], {'d': e}, ())",
    "-x ** -y @ (z + 1) * 2",
    "not (a and b or c) and d",
    "a < b <= c != d in e",
    "a if b else (c if d else e)",
    "lambda x, y: x + y",
    "[(a, b) for a, b in zip(x, y) if a for c in b]",
    "f(*(x.ravel() for x in y))",
    "1 - 2.5 + 3j",
    "x << 1 | ~y & z ^ w >> 2",
)


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_is_written(text: str) -> None:
    assert source(parsed(text)) == ast.unparse(ast.parse(text, mode="eval"))


@pytest.mark.parametrize(
    "text",
    [
        "not (a and b or c) and d is not None",
        "a is None or b is None or c is None or d is None and e < 1",
        "(a or b) and (c if d else e) and f(x or y) == 2",
        "(a or b) or (lambda: c)",
    ],
)
def test_comparisons_in_a_chain_have_no_parentheses(text: str) -> None:
    assert source(parsed(text)) == text


def test_a_power_below_zero_has_no_parentheses() -> None:
    assert source(parsed("(a // b) ** (-0.5)")) == "(a // b) ** -0.5"
    assert source(parsed("a ** (-b)")) == "a ** (-b)"


def test_every_pair_can_be_read() -> None:
    for pair in OPERATORS:
        again, read = (ast.parse(text, mode="eval") for text in (source(parsed(pair.jax)), pair.jax))
        assert ast.dump(again) == ast.dump(read), pair.jax


_LEAVES = st.sampled_from(["x", "y.z", "1", "2.5", "None", "'a'", "..."])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = ["+", "-", "*", "@", "/", "//", "%", "**", "and", "or", "<", "is not", "in", "&"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(operators), inner).map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        st.tuples(st.sampled_from(["-", "not ", "~"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.lists(inner, max_size=3).map(lambda parts: f"f({', '.join(f'({part})' for part in parts)})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(f'({part})' for part in parts)}]"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[({parts[1]}), :]"),
        st.tuples(inner, inner).map(lambda parts: f"(lambda x: ({parts[0]}))(({parts[1]}))"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]}) if ({parts[1]}) else ({parts[2]})"),
    )


@settings(deadline=None, max_examples=100)
@given(st.recursive(_LEAVES, _combined, max_leaves=10))
def test_any_expression_there_and_back(text: str) -> None:
    assert ast.dump(ast.parse(source(parsed(text)))) == ast.dump(ast.parse(text))
    assert parsed(source(parsed(text))) == parsed(text)


def test_names_of_holes_are_holes() -> None:
    made = parsed("lambda x: f(x, y, y=z)", holes=("y", "z"))
    assert [node.name for node in syntax.walk(made) if isinstance(node, syntax.Hole)] == ["y", "z"]


@pytest.mark.parametrize("text", ["(x := 1)", "f'{x}'", "lambda x=1: x", "{**x}", "await x", "{x for x in y}"])
def test_what_is_never_written_is_not_read(text: str) -> None:
    with pytest.raises(SyntaxError, match="of a kind that has no node"):
        parsed(text)


def test_what_has_no_name_yet_is_shown_as_no_python_can_be() -> None:
    call = syntax.Call(syntax.Attr("layer.0", "weight"), (syntax.Use("x"), syntax.Hole("n")))
    assert source(call) == "@layer.0|weight(%x, <n>)"
    assert source(syntax.Item(syntax.Use("x"), syntax.Const("key"))) == "%x['key']"
    with pytest.raises(SyntaxError):
        parsed(source(call))


@pytest.mark.parametrize(
    ("text", "worth"),
    [("[a + b for a, b in zip((1, 2), (3, 4))]", [4, 6]), ("tuple(k % 2 for k in (1, 2))", (1, 0)), ("-3 // 2", -2)],
)
def test_compiled_it_is_worth_the_same(text: str, worth: object) -> None:
    assert eval(compiled(parsed(text))) == worth


def test_a_statement_of_one_line() -> None:
    assert source(syntax.Assign(parsed("x, (y, z)"), parsed("f(x), (y,)"))) == "x, (y, z) = f(x), (y,)"
    assert (
        source(syntax.Return(parsed("x, y"))) == "return x, y"
        and source(syntax.Return(parsed("(x,)"))) == "return (x,)"
    )
    assert source(syntax.AnnAssign(parsed("x"), parsed("dict[str, int]"), parsed("{}"))) == "x: dict[str, int] = {}"
    with pytest.raises(TypeError, match="no text of one line"):
        source(syntax.If(parsed("x"), (syntax.Pass(),)))
