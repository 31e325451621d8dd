"""A body for two modes does in each mode what that mode's own body did."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.syntax import parsed
from port.translation.structure.train_eval_merge import merged, with_modes_apart
from port.translation.structure.written_body import Body

from ..statements_read import statements as statements_of


def body(*statements: str, returns: str | None = "x") -> Body:
    return Body(("x",), tuple(statements_of("\n".join(statements))), None if returns is None else parsed(returns))


def text(made: Body) -> str:
    returns = [] if made.returns is None else [syntax.Return(made.returns)]
    return text_of(*made.statements, *returns)


def result(made: Body, deterministic: bool) -> Any:
    """What a body gives; a dropout multiplies by 10, and does nothing in evaluation."""
    assert made.returns is not None
    parameters = (syntax.Parameter("self"), syntax.Parameter("x"))
    names: dict[str, Any] = {}
    exec(text_of(syntax.FunctionDef("call", parameters, (*made.statements, syntax.Return(made.returns)))), names)

    def dropout(x: Any) -> Any:
        return x if deterministic else 10 * x

    return names["call"](SimpleNamespace(deterministic=deterministic, dropout=dropout), 3)


@pytest.mark.parametrize(
    ("training", "evaluation", "expected"),
    [
        (body("x = f(x)"), body("x = f(x)"), "x = f(x)\nreturn x"),
        (
            body("x = f(x)", "x = g(x)"),
            body("x = f(x)"),
            "x = f(x)\nif not self.deterministic:\n    x = g(x)\nreturn x",
        ),
        (body("x = f(x)"), body("x = f(x)", "x = g(x)"), "x = f(x)\nif self.deterministic:\n    x = g(x)\nreturn x"),
        (
            body("x = f(x)"),
            body("x = g(x)"),
            "if not self.deterministic:\n    x = f(x)\nelse:\n    x = g(x)\nreturn x",
        ),
        (
            body("y = f(x)", returns="(x, y)"),
            body(),
            "if not self.deterministic:\n    y = f(x)\n    return x, y\nreturn x",
        ),
        (body(returns="f(x)"), body(), "if not self.deterministic:\n    return f(x)\nreturn x"),
        (
            body("x = f(x)", returns=None),
            body("x = f(x)"),
            "x = f(x)\nif not self.deterministic:\n    return None\nreturn x",
        ),
    ],
)
def test_what_one_mode_alone_does(training: Body, evaluation: Body, expected: str) -> None:
    assert text(merged(training, evaluation)) == expected


@pytest.mark.parametrize(
    ("training", "evaluation"),
    [
        (body("x = f(x)", "x = self.dropout(x)"), body("x = f(x)")),
        (body("x = f(self.dropout2(x))"), body("x = f(x)")),
        (body("x = attention(x, dropout=self.dropout)"), body("x = attention(x)")),
        (body(returns="self.dropout(x)"), body()),
    ],
)
def test_a_dropout_needs_no_condition(training: Body, evaluation: Body) -> None:
    made = merged(training, evaluation)
    assert text(made) == text(training)
    assert not made.modes


def test_a_body_that_asks_for_the_mode_says_so() -> None:
    assert merged(body("x = f(x)"), body()).modes


def test_it_takes_what_any_mode_needs() -> None:
    training, evaluation = body(returns="f(x)"), replace(body(returns="y"), parameters=("y",))
    assert merged(training, evaluation).parameters == ("x", "y")


_BODIES = st.builds(
    lambda statements, returns: body(*statements, returns=returns),
    st.lists(
        st.sampled_from(["x = x + 1", "x = x * 2", "y = x - 5", "x = self.dropout(x)", "x = self.dropout(x) + 7"]),
        max_size=5,
    ),
    st.sampled_from(["x", "x + 2", "self.dropout(x)", "(x, 4)"]),
)


@settings(deadline=None, max_examples=100)
@given(_BODIES, _BODIES)
def test_each_mode_does_what_it_did(training: Body, evaluation: Body) -> None:
    before = result(training, False), result(evaluation, True)
    made = merged(training, evaluation)
    assert (result(made, False), result(made, True)) == before
    apart = with_modes_apart(made)
    assert apart is None or (result(apart, False), result(apart, True)) == before


def test_modes_that_part_twice_part_once() -> None:
    made = merged(body("x = a(x)", "x = f(x)", "x = g(x)", "x = h(x)"), body("x = f(x)", "x = h(x)"))
    apart = with_modes_apart(made)
    assert apart is not None
    assert text(apart) == (
        "if not self.deterministic:\n    x = a(x)\n    x = f(x)\n    x = g(x)\nelse:\n    x = f(x)\nx = h(x)\nreturn x"
    )
    assert with_modes_apart(apart) is None
    assert with_modes_apart(body("x = f(x)")) is None
