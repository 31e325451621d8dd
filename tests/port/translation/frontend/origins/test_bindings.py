"""The assignment that reaches a point in a function."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest

from port.translation.frontend.origins.bindings import (
    AssignedBinding,
    AugmentedBinding,
    Binding,
    Bindings,
    ItemBinding,
    LoopBinding,
    ParameterBinding,
)
from port.translation.frontend.origins.executing import SourceFile


def _before_use(body: str, name: str = "n", *, held: bool | None = None) -> Binding | None:
    """The binding of ``n`` where a function of ``x`` and ``n`` calls ``use``."""
    file = SourceFile(
        "net.py", ast.parse(f"def f(x, n, *rest, other=3):\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    )
    function: Any = file.tree.body[0]
    (call,) = [node for node in ast.walk(function) if isinstance(node, ast.Call) and ast.unparse(node.func) == "use"]
    return Bindings(file, function).before(name, call, lambda test, statement: held)


def _text(found: Binding | None) -> Any:
    match found:
        case AssignedBinding(value, items):
            return ast.unparse(value), items
        case AugmentedBinding(statement) | ItemBinding(statement) | LoopBinding(statement):
            return ast.unparse(statement)
        case ParameterBinding(name):
            return name
    return None


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("use(n)", "n"),
        ("n = 3\nuse(n)", ("3", ())),
        ("n: int = 3\nuse(n)", ("3", ())),
        ("n = 3\nn = 5\nuse(n)\nn = 7", ("5", ())),
        ("m = n = 3\nuse(n)", ("3", ())),
        ("b, (n, c) = x.shape, x\nuse(n)", ("(x.shape, x)", (1, 0))),
        ("*b, n = x.shape\nuse(n)", ("x.shape", (-1,))),
        ("n, *b = x.shape\nuse(n)", ("x.shape", (0,))),
        ("b, *n = x.shape\nuse(n)", None),
        ("n //= 2\nuse(n)", "n //= 2"),
        ("n = use(n)", "n"),
        ("x.n = 3\nuse(n)", "n"),
        ("n[0] = 3\nuse(n)", "n[0] = 3"),
        ("n[1:] = x\nuse(n)", None),
        ("n[0], m = 3, 5\nuse(n)", None),
        ("for n in x:\n    use(n)", "for n in x:\n    use(n)"),
        ("for n in x:\n    use(n)\n    n = 3", None),
        ("for m, n in x:\n    use(n)", None),
        ("del n\nuse(n)", None),
        ("import n\nuse(n)", None),
        ("def n(): pass\nuse(n)", None),
        ("global n\nn = 3\nuse(n)", None),
        ("use(n := 3)", None),
        ("if (n := 3): pass\nuse(n)", None),
    ],
)
def test_in_a_row(body: str, given: Any) -> None:
    assert _text(_before_use(body)) == given


@pytest.mark.parametrize(
    ("body", "held", "given"),
    [
        ("if x: n = 3\nuse(n)", None, None),
        ("if x: n = 3\nuse(n)", True, ("3", ())),
        ("if x: n = 3\nuse(n)", False, "n"),
        ("if x: n = 3\nelse: n = 5\nuse(n)", False, ("5", ())),
        ("if x: m = 3\nuse(n)", None, "n"),
        ("if x:\n    n = 3\n    use(n)", None, ("3", ())),
        ("n = 5\nif x:\n    use(n)\nelse:\n    n = 3", None, ("5", ())),
        ("with x: n = 3\nuse(n)", None, ("3", ())),
        ("with x as n: pass\nuse(n)", None, None),
        ("with x as n: use(n)", None, None),
        ("try: n = 3\nexcept ValueError: pass\nuse(n)", None, None),
        ("try: use(n)\nexcept ValueError: n = 3", None, None),
        ("match x:\n    case n: pass\nuse(n)", None, None),
        ("match x:\n    case 3: use(n)", None, "n"),
    ],
)
def test_around_conditions(body: str, held: bool | None, given: Any) -> None:
    assert _text(_before_use(body, held=held)) == given


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("for n in x: use(n)", "for n in x:\n    use(n)"),
        ("for m in x: use(n)", "n"),
        ("for m in x:\n    use(n)\n    n = 3", None),
        ("for m in x:\n    n = 3\n    use(n)", ("3", ())),
        ("n = 5\nfor m in x:\n    n = 3\nuse(n)", None),
        ("n = 5\nfor m in use(n):\n    n = 3", ("5", ())),
        ("while use(n):\n    n = 3", None),
        ("while x:\n    if x:\n        use(n)\n    n = 3", None),
        ("m = [n for n in x]\nuse(n)", "n"),
        ("m = [n := 3 for k in x]\nuse(n)", None),
    ],
)
def test_around_loops(body: str, given: Any) -> None:
    assert _text(_before_use(body)) == given


def test_a_function_within_may_give_it_from_when_it_is_there() -> None:
    inner = "def g():\n    nonlocal n\n    n = 3\n"
    assert _text(_before_use(f"{inner}use(n)")) is None
    assert _text(_before_use(f"use(n)\n{inner}")) == "n"
    assert _text(_before_use(f"for m in x:\n    use(n)\n{textwrap.indent(inner, '    ')}")) is None


def test_parameters_of_every_kind() -> None:
    assert [_text(_before_use("use(n)", name)) for name in ("x", "rest", "other", "elsewhere")] == [
        "x",
        "rest",
        "other",
        None,
    ]


def test_a_comprehensions_own_variable_is_none_of_the_functions() -> None:
    assert _text(_before_use("[use(n) for n in x]")) is None
    assert _text(_before_use("[use(n) for m in x]")) == "n"
    assert _text(_before_use("n = 3\n{m: use(n) for m, n in x}")) is None
