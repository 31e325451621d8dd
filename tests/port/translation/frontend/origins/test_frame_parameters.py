"""The arguments of a running function are resolved from its caller's source."""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import Any

import torch

from port.translation.frontend.origins.executing import ProgramPoint, SourceFiles
from port.translation.frontend.origins.frame_objects import MISSING, variable
from port.translation.frontend.origins.frame_parameters import FrameParameters, operands_of, twin_of
from port.translation.frontend.origins.resolved import Resolved


def _resolve(node: ast.expr, point: ProgramPoint) -> Resolved:
    match node:
        case ast.Constant(value):
            return Resolved(value)
        case ast.Name(name):
            return Resolved(variable(point.here.frame, name))
        case ast.Attribute(of, name):
            return Resolved(getattr(_resolve(of, point).value, name, MISSING))
    return Resolved()


def _given() -> dict[str, Any]:
    """The resolved parameters of the caller."""
    given = FrameParameters(SourceFiles(), _resolve).of(sys._getframe(1))
    return {name: found().value for name, found in given.items()}


def function(a: int, b: int = 5) -> dict[str, Any]:
    return _given()


class Below:
    def method(self, a: int) -> dict[str, Any]:
        return _given()


class Above(Below):
    def method(self, a: int) -> dict[str, Any]:
        return super().method(7)

    def __call__(self, a: int) -> dict[str, Any]:
        return _given()


def test_functions_methods_and_objects_that_are_called() -> None:
    above = Above()
    assert function(3) == {"a": 3, "b": 5}
    assert function(b=7, a=3) == {"b": 7, "a": 3}
    assert above(3) == {"self": above, "a": 3}
    assert above.method(3) == {"self": above, "a": 7}


def test_a_call_of_something_else_says_nothing() -> None:
    assert list(map(function, [3])) == [{}]
    assert max([3], key=lambda a: len(function(a))) == 3
    assert (lambda: [*map(function, (3,))])() == [{}]


def test_operands() -> None:
    def texts(text: str) -> list[str]:
        statement = ast.parse(text).body[0]
        node = statement.value if isinstance(statement, ast.Expr) else statement
        return [ast.unparse(operand) for operand in operands_of(node)]

    assert texts("a * 3") == ["a", "3"] and texts("a > 3") == ["a", "3"]
    assert texts("a *= 3") == ["3"] and texts("a < b < 3") == texts("f(a)") == []


AGAIN = """
def function(tell, more):
    return again(function, tell, more - 1) if more else tell()

def again(called, *args):
    return called(*args)
"""


def test_a_function_that_torch_calls_once_more_is_found_further_out() -> None:
    def tell() -> tuple[FrameType, FrameType | None]:
        frame = sys._getframe(1)
        return frame, twin_of(frame)

    of_torch: dict[str, Any] = {}
    exec(compile(AGAIN, f"{torch.__path__[0]}/made.py", "exec"), of_torch)
    frame, twin = of_torch["function"](tell, 1)
    assert twin is not None and twin is not frame and twin.f_code is frame.f_code
    assert of_torch["function"](tell, 0)[1] is None  # called by code of the user's
