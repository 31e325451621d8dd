"""Inlined functions: their marks are removed, and the steps that only the marks read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import UNREAD_DRAW, Graph, Operation, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.verifier import verify_graph
from port.translation.passes.dissolve_functions import functions_of, with_same_functions, without_functions


def outer(x: Any) -> Any:
    return x


def inner(x: Any) -> Any:
    return x


X, Y, UNREAD, DRAWN = (Value(name, (2, 3), "float32") for name in ("x", "y", "unread", "drawn"))


def _operation(name: str, made: Value, place: SourceLocation | None = None) -> Operation:
    return Operation(name, {"self": X}, (made,), several=False, place=place)


def _graph(*steps: Step) -> Graph:
    scope = ScopeEnter("", 0, None, {"x": X})
    return Graph((X,), {}, {}, (scope, *steps, ScopeExit("", 0, Y)))


def _called(function: Callable[..., Any], call: int, results: Any, *steps: Step) -> tuple[Step, ...]:
    return FunctionEnter(function, call, {"x": X}), *steps, FunctionExit(function, call, results)


GRAPH = _graph(
    *_called(
        outer,
        0,
        (Y, UNREAD),
        _operation("aten.rand_like.default", DRAWN),
        *_called(inner, 1, Y, _operation("aten.sin.default", Y)),
        _operation("aten.cos.default", UNREAD),
    )
)


def test_marks_go_and_what_they_alone_have_read() -> None:
    verify_graph(GRAPH)
    plain = without_functions(GRAPH)
    verify_graph(plain)
    assert functions_of(GRAPH) == {outer, inner} and functions_of(plain) == set()
    made = [step.operator for step in plain.steps if isinstance(step, Operation)]
    assert made == [UNREAD_DRAW, "aten.sin.default"]
    assert without_functions(plain) is plain


def test_some_of_them_go() -> None:
    kept = without_functions(GRAPH, {inner})
    verify_graph(kept)
    assert functions_of(kept) == {outer}
    made = [step.operator for step in kept.steps if isinstance(step, Operation)]
    assert made == [UNREAD_DRAW, "aten.sin.default", "aten.cos.default"]


def test_what_one_mode_has_dissolved_both_have() -> None:
    line = SourceLocation(__file__, inner.__code__.co_firstlineno + 1)
    written_out = _graph(_operation("aten.sin.default", Y, line))
    both = with_same_functions({True: GRAPH, False: written_out})
    assert functions_of(both[True]) == functions_of(both[False]) == set()


def test_what_one_mode_alone_calls_stays() -> None:
    elsewhere = SourceLocation(__file__, 1)
    other = _graph(_operation("aten.sin.default", Y, elsewhere))
    both = with_same_functions({True: GRAPH, False: other})
    assert functions_of(both[True]) == {outer, inner}
    assert both[False] is other and replace(both[True], steps=()) == replace(GRAPH, steps=())
