"""Specialised templates: parts with numbers are evaluated, parts with arrays stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.ir import syntax
from port.translation.lowering.templates import Array, Length, Other, SourceFragment, specialised

X = Array(3)


def shown(made: syntax.Expr) -> str:
    """The text, its holes by their names."""
    return syntax.source(
        syntax.transformed(made, lambda node: syntax.Name(node.name) if isinstance(node, syntax.Hole) else node)
    )


@pytest.mark.parametrize(
    ("template", "variables", "text"),
    [
        ("input[*(slice(None),) * (dim % input.ndim), start:end:step]", {"dim": -1, "end": 4}, "input[:, :, :4]"),
        ("input[*(slice(None),) * (dim % input.ndim), index]", {"dim": 1, "index": -1}, "input[:, -1]"),
        ("input[*(slice(None),) * (dim % input.ndim), index]", {"dim": 0, "index": Length()}, "input[index]"),
        ("jnp.split(input, [*range(2, 7, 2)])", {}, "jnp.split(input, [2, 4, 6])"),
        ("[sum(sizes[:k]) for k in range(1, len(sizes))]", {"sizes": (1, 2, 4)}, "[1, 3]"),
        (
            "[sum(sizes[:k]) for k in range(1, len(sizes))]",
            {"sizes": (Length(), 2, Length())},
            "[sizes_0, sizes_0 + 2]",
        ),
        (
            "jnp.concatenate([*tensors], axis=dim)",
            {"tensors": (X, X), "dim": -1},
            "jnp.concatenate([tensors_0, tensors_1], axis=-1)",
        ),
        ("beta * input + alpha * other", {"alpha": 1, "beta": 2, "other": X}, "2 * input + other"),
        ("input.at[i].add(v) if accumulate else input.at[i].set(v)", {"accumulate": True}, "input.at[i].add(v)"),
        ("f(input, value or 0, a and b)", {"value": None, "a": True, "b": False}, "f(input, 0, False)"),
        ("f(input, value or 0)", {"value": Other()}, "f(input, value or 0)"),
        (
            "jnp.pad(input, [(0, 0)] * (input.ndim - 1) + [*zip(pad[::2], pad[1::2])][::-1])",
            {"pad": (1, 2)},
            "jnp.pad(input, [(0, 0), (0, 0), (1, 2)])",
        ),
        (
            "input.reshape(*shape)",
            {"shape": (SourceFragment("*input.shape[:2]"), -1)},
            "input.reshape(*input.shape[:2], -1)",
        ),
        ("input.shape[dim] // 2", {"dim": 1}, "input.shape[1] // 2"),
        ("indices[0].ndim + input.ndim", {"indices": (X,)}, "6"),
        ("input + 0", {}, "input + 0"),
        ("-input", {}, "-input"),
        ("input == 0", {}, "input == 0"),
    ],
)
def test_what_is_left(template: str, variables: dict[str, Any], text: str) -> None:
    given = {"input": X, "start": None, "step": 1, **variables}
    assert shown(specialised(template, given)) == text


def test_lengths_are_numbers_where_they_are_told() -> None:
    tensor = Array(2, (6, None))
    for dim, text in ((0, "3"), (1, "tensor.shape[1] // 2")):
        assert shown(specialised("tensor.shape[dim] // size", {"tensor": tensor, "dim": dim, "size": 2})) == text


def test_floats_without_a_literal_are_said() -> None:
    made = specialised("jnp.where(input > low, input, high)", {"input": X, "low": float("-inf"), "high": 0.5})
    assert shown(made) == "jnp.where(input > -jnp.inf, input, 0.5)"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("-1 % 4 + 1", "4"),
        ("(3, 4, 5)[1]", "4"),
        ("f(*(1, 2), x)", "f(1, 2, x)"),
        ("(*(1, 2), x)", "(1, 2, x)"),
        ("[*(1, x), 3]", "[1, x, 3]"),
        ("a if 2 > 1 else b", "a"),
        ("a if None is None else b", "a"),
        ("0 or x", "x"),
        ("1 or x", "1"),
        ("0 and x", "0"),
        ("x and 0", "x and 0"),
        ("1 and x and y", "x and y"),
        ("tuple((k - 1) % 4 for k in (0, 2))", "(3, 1)"),
        ("len((1, 2, 3))", "3"),
        ("1 / 0", "1 / 0"),
        ("f(2 * 3, axis=1 - 2)", "f(6, axis=-1)"),
        ("x.ndim - 1", "x.ndim - 1"),
    ],
)
def test_what_numbers_alone_say(text: str, short: str) -> None:
    assert shown(specialised(text, {"x": Other()})) == short


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        st.tuples(two, st.integers(0, 1)).map(lambda parts: f"({parts[0][0]}, {parts[0][1]})[{parts[1]}]"),
        two.map(lambda parts: f"max({parts[0]}, {parts[1]})"),
        inner.map(lambda part: f"(-{part})"),
    )


_EXPRESSIONS = st.recursive(st.integers(0, 4).map(str) | st.just("x"), _combined, max_leaves=8)


def _worth(text: str, **names: Any) -> Any:
    try:
        return eval(text, dict(names))
    except ZeroDivisionError:
        return ZeroDivisionError


@settings(deadline=None, max_examples=50)
@given(_EXPRESSIONS, st.integers(-3, 3))
def test_an_expression_stays_worth_the_same(text: str, x: int) -> None:
    assert _worth(shown(specialised(text, {"x": Other()})), x=x) == _worth(text, x=x)
