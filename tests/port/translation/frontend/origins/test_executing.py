"""The expression that a frame is executing, and the function around it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from port.translation.frontend.origins.executing import Executing, SourceFiles


def _here(depth: int = 1, **_: Any) -> Executing | None:
    return SourceFiles().executing(sys._getframe(depth))


def _text(found: Executing | None) -> str:
    assert found is not None
    return ast.unparse(found.node)


class Asked:
    """Reports the executing expression when one of its operators runs."""

    def __mul__(self, other: Any) -> Executing | None:
        return _here(2)

    __getitem__ = __gt__ = __mul__
    __imul__ = __mul__


def test_of_two_calls_on_a_line_it_is_the_one_that_runs() -> None:
    one, other = _here(1, a=3), _here(1, b=4)
    assert (_text(one), _text(other)) == ("_here(1, a=3)", "_here(1, b=4)")
    assert one is not None and isinstance(one.scope, ast.FunctionDef)
    assert one.scope.name == "test_of_two_calls_on_a_line_it_is_the_one_that_runs"


def test_operators_are_expressions_too() -> None:
    asked: Any = Asked()
    assert _text(asked * 3) == "asked * 3"
    assert _text(asked[3:5]) == "asked[3:5]"
    assert _text(asked > 3) == "asked > 3"
    asked *= 7
    assert _text(asked) == "asked *= 7"


class Chained:
    """Its method reports the executing expression, and returns self."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def then(self, *_: int) -> Chained:
        self.told.append(_text(_here(2)))
        return self


def test_a_method_on_a_line_of_its_own() -> None:
    chained = Chained()
    (
        chained
        .then(1)
        .then(
            2,
            3,
        ).then(4)
    )  # fmt: skip
    first, second = "chained.then(1)", "chained.then(1).then(2, 3)"
    assert chained.told == [first, second, f"{second}.then(4)"]


def test_a_call_over_several_lines() -> None:
    found = _here(
        1,
        a=[
            5,
        ],
    )
    assert _text(found) == "_here(1, a=[5])"


def test_a_comprehension_and_a_lambda_have_variables_of_their_own() -> None:
    (inside,) = [_here() for _ in range(1)]
    # From Python 3.12 on a list comprehension runs in its function's frame.
    own_frame = ast.ListComp if sys.version_info < (3, 12) else ast.FunctionDef
    assert inside is not None and isinstance(inside.scope, own_frame)
    (generated,) = (_here() for _ in range(1))
    assert generated is not None and isinstance(generated.scope, ast.GeneratorExp)
    asked: Callable[[], Executing | None] = lambda: _here()  # noqa: E731
    found = asked()
    assert found is not None and isinstance(found.scope, ast.Lambda)
    (outer,) = [number or None for number in (_here(),)]
    assert outer is not None and isinstance(outer.scope, ast.FunctionDef)


def test_code_without_source_says_nothing() -> None:
    made: dict[str, Any] = {"here": _here}
    exec("found = here()", made)
    assert made["found"] is None


@pytest.mark.parametrize("after", ["def f(here, n):\n    return here()\n", "def (", ""])
def test_a_file_that_is_another_by_now_is_not_believed(after: str, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("def f(here):\n    return here()\n")
    made: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), made)
    assert _text(made["f"](_here)) == "here()"
    path.write_text(after)
    assert made["f"](_here) is None
