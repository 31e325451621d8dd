"""Several results of one statement: names get the same values, and a shared call is written once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.codegen.statements import text_of
from port.translation.ir.syntax import parsed
from port.translation.structure.unpacking import assigned

LAX = SimpleNamespace(top_k=lambda x: (x * 2, x + 7))
LONG = "x_which_has_a_long_name_that_fills_a_line"


def text(target: str, value: str) -> str:
    return text_of(*assigned(parsed(target), parsed(value)))


@pytest.mark.parametrize(
    ("target", "value", "written"),
    [
        ("y", "f(x)", "y = f(x)"),
        ("a, b", "f(x)", "a, b = f(x)"),
        ("a, b", "(f(x), g(x))", "a, b = f(x), g(x)"),
        ("a, _", "(f(x), g(x))", "a = f(x)"),
        ("_, b", "(f(x), g(x))", "b = g(x)"),
        ("a, _", "(f(x), self.layer(x))", "a, _ = f(x), self.layer(x)"),
        ("a, b", "(lax.top_k(x, 2)[0], lax.top_k(x, 2)[1])", "a, b = lax.top_k(x, 2)"),
        (
            "a, b",
            "(lax.top_k(x, 2)[0], lax.top_k(x, 2)[1].astype(int))",
            "a, b = lax.top_k(x, 2)\nb = b.astype(int)",
        ),
        ("a, _", "(lax.top_k(x, 2)[0], lax.top_k(x, 2)[1].astype(int))", "a, _ = lax.top_k(x, 2)"),
        ("a, b", "(lax.top_k(x)[1], lax.top_k(x)[0])", "a, b = lax.top_k(x)[1], lax.top_k(x)[0]"),
        ("x, b", "(lax.top_k(x)[0], lax.top_k(x)[1] + x)", "x, b = lax.top_k(x)[0], lax.top_k(x)[1] + x"),
        ("a, b", "(f(x)[0], f(x)[1])", "a, b = f(x)[0], f(x)[1]"),  # there may be a third
        ("a, b", f"(f({LONG}), g({LONG}))", f"a = f({LONG})\nb = g({LONG})"),
        ("a, b", f"(f({LONG}), g({LONG}, a))", f"a, b = f({LONG}), g({LONG}, a)"),
        ("a, (b, c)", "(f(x), g(x))", "a, (b, c) = f(x), g(x)"),
    ],
)
def test_how_it_reads(target: str, value: str, written: str) -> None:
    assert text(target, value) == written


_TERMS = st.sampled_from(
    ["top(x)[0]", "top(x)[1]", "top(x)[1] + y", "top(x)[0] * x", "x + y", "y - a", "top(y)[1] + b", "f(x)[2]", "3"]
)
_NAMES = st.lists(st.sampled_from(["a", "b", "x", "y", "_"]), min_size=2, max_size=3, unique=True)


def _done(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"f": lambda x: (x * 2, x + 7, x * x), "lax": LAX, "a": 2, "b": 3, "x": 5, "y": 11}
    exec(code, names)
    return {name: names[name] for name in "abxy"}


@settings(deadline=None, max_examples=300)
@given(_NAMES, st.data())
def test_the_same_values(names: list[str], data: st.DataObject) -> None:
    terms = [data.draw(_TERMS).replace("top(", "lax.top_k(") for _ in names]
    target, value = ", ".join(names), f"({', '.join(terms)})"
    assert _done(text(target, value)) == _done(f"{target} = {value}")
