"""The arguments of a call are matched with the function's parameters."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from port.translation.frontend.origins.call_arguments import call_arguments, function_arguments
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin import DefaultOf

KNOWN: dict[str, Resolved] = {
    "pair": Resolved(items=(Resolved(3), Resolved(5))),
    "options": Resolved(named={"scale": Resolved(7)}),
}


def _resolve(node: ast.expr) -> Resolved:
    match node:
        case ast.Constant(value):
            return Resolved(value)
        case ast.Name(name):
            return KNOWN.get(name, Resolved())
    return Resolved()


def plain(a: int, b: int, scale: int = 11, *, other: int = 13) -> None: ...


def gathering(a: int, *rest: int, **more: int) -> None: ...


def _given(function: Any, text: str) -> dict[str, Any]:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    found = {name: given() for name, given in function_arguments(function, call_arguments(call, _resolve)).items()}
    return {name: each.value if each.items is each.named is None else each for name, each in found.items()}


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("f(3, 5)", {"a": 3, "b": 5, "scale": 11, "other": 13}),
        ("f(3, other=7, b=5)", {"a": 3, "b": 5, "scale": 11, "other": 7}),
        ("f(*pair)", {"a": 3, "b": 5, "scale": 11, "other": 13}),
        ("f(2, *pair)", {"a": 2, "b": 3, "scale": 5, "other": 13}),
        ("f(3, 5, **options)", {"a": 3, "b": 5, "scale": 7, "other": 13}),
        ("f(3, 5, **unknown)", {"a": 3, "b": 5}),
        ("f(3, *unknown)", {"a": 3, "other": 13}),
        ("f(3, *unknown, other=7)", {"a": 3, "other": 7}),
    ],
)
def test_a_function_with_defaults(text: str, given: dict[str, Any]) -> None:
    assert _given(plain, text) == given


def test_a_default_is_one_of_the_function() -> None:
    call = ast.parse("f(3, 5)", mode="eval").body
    assert isinstance(call, ast.Call)
    given = function_arguments(plain, call_arguments(call, _resolve))
    assert given["scale"]() == Resolved(11, DefaultOf("plain", "scale"))


def test_what_is_gathered() -> None:
    given = _given(gathering, "f(2, *pair, n=9, **options)")
    assert given["rest"].each_item() == (Resolved(3), Resolved(5))
    assert given["more"].each_named() == {"n": Resolved(9), "scale": Resolved(7)}
    assert set(_given(gathering, "f(2, *unknown)")) == {"a", "more"}
    assert set(_given(gathering, "f(2, **unknown)")) == {"a", "rest"}


def test_a_methods_object_goes_first() -> None:
    call = ast.parse("m.f(5)", mode="eval").body
    assert isinstance(call, ast.Call)
    given = function_arguments(plain, call_arguments(call, _resolve).preceded_by([Resolved("m")]))
    assert (given["a"]().value, given["b"]().value) == ("m", 5)
