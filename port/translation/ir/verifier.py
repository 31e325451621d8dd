"""Verify graphs: each value is defined once and before it is read, and scopes are properly nested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import values_in
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, Loop, Step, Value, each_value, read_by, values_of
from port.translation.ir.lowered import Assignment, LoweredGraph, LoweredStep, Scan
from port.translation.ir.module_calls import ScopeEnter, ScopeExit


class BrokenGraph(AssertionError):
    """An inconsistent graph: a bug in a pass."""


def verify_graph(graph: Graph) -> None:
    """Verify a captured graph.

    Args:
        graph: the graph of one mode.

    Raises:
        BrokenGraph: a value is read before its definition, or defined twice; a scope is left that was not entered
            last, or never left; a loop's carry changes its shape or dtype.
    """
    _Verifier({*graph.inputs, *graph.held, *graph.constants}).check(graph.steps, graph.written.values())


def verify_lowered(lowered: LoweredGraph) -> None:
    """Verify a lowered graph, and that each layout has its value's rank.

    Args:
        lowered: the lowered graph of one mode.

    Raises:
        BrokenGraph: see `verify_graph`; or a layout's rank differs from its value's.
    """
    known = {value.name for value in (*lowered.graph.inputs, *lowered.graph.held, *lowered.graph.constants)}
    # A size is a formula of the inputs' lengths, written where it is used.
    known |= {value.name for value in values_of(lowered.graph) if value.shape is None}
    known |= {value.name for value in lowered.values.values() if value.shape is None}
    _verify_steps(lowered.steps, known, [])
    for value, layout in lowered.layouts.items():
        if sorted(layout.order) != list(range(value.rank)):
            raise BrokenGraph(f"{value!r} has {value.rank} axes, and its layout is {layout}")


class _Verifier:
    def __init__(self, made: set[Value]) -> None:
        self.made = made
        self.scopes: list[tuple[Any, int]] = []

    def check(self, steps: Iterable[Step], written: Iterable[Value]) -> None:
        for step in steps:
            self.step(step)
        if self.scopes:
            raise BrokenGraph(f"{_called(self.scopes[-1][0])} is entered and never left")
        self.read(written, "what is written to the module")

    def step(self, step: Step) -> None:
        what = _named(step)
        self.read(step.taken if isinstance(step, Loop) else read_by(step), what)
        match step:
            case ScopeEnter() | FunctionEnter():
                self.scopes.append((_scope(step), step.call))
            case ScopeExit() | FunctionExit():
                if not self.scopes or self.scopes.pop() != (_scope(step), step.call):
                    raise BrokenGraph(f"{_called(_scope(step))} is left and was not entered last")
            case Loop():
                self.loop(step)
                self.make(step.results, what)
            case _:
                self.make(each_value(step.results), what)

    def loop(self, step: Loop) -> None:
        inside = [*(each.inside for each in step.carried), *(each.inside for each in step.sliced)]
        body = _Verifier({*self.made, *inside})
        body.check(step.steps, [*(each.next for each in step.carried), *(each.inside for each in step.stacked)])
        for each in step.carried:
            if (each.first.shape, each.first.dtype) != (each.inside.shape, each.inside.dtype):
                raise BrokenGraph(f"a loop carries {each.inside!r}, which begins with {each.first!r} of another shape")

    def read(self, values: Iterable[Value], what: str) -> None:
        for value in values:
            if value not in self.made:
                raise BrokenGraph(f"{what} reads {value!r}, which nothing before it makes")

    def make(self, values: Iterable[Value], what: str) -> None:
        for value in values:
            if value in self.made:
                raise BrokenGraph(f"{what} makes {value!r}, which is there already")
            self.made.add(value)


def _verify_steps(steps: Iterable[LoweredStep], known: set[str], scopes: list[Any]) -> None:
    for step in steps:
        match step:
            case Assignment():
                _read([step.expression], known, "an expression")
                known |= {value.name for value in each_value(step.results)}
            case ScopeEnter() | FunctionEnter():
                _read(_expressions(step.arguments), known, f"the call of {_called(_scope(step))}")
                scopes.append(_scope(step))
            case ScopeExit() | FunctionExit():
                _read(_expressions(step.results), known, f"what {_called(_scope(step))} gives")
                if not scopes or scopes.pop() != _scope(step):
                    raise BrokenGraph(f"{_called(_scope(step))} is left and was not entered last")
            case Scan():
                _read([*step.first, *step.whole], known, "a scan")
                inside = known | {value.name for value in (*step.carried, *step.sliced)}
                _verify_steps(step.steps, inside, list(scopes))
                _read([*step.next, *step.outputs], inside, "a round of a scan")
                known |= {value.name for value in (*step.last, *step.stacked)}


def _read(expressions: Iterable[syntax.Expr], known: set[str], what: str) -> None:
    for expression in expressions:
        for name in values_in(expression):
            if name not in known:
                raise BrokenGraph(f"{what} reads %{name}, which nothing before it makes: {syntax.source(expression)}")


def _expressions(tree: Any) -> Iterable[syntax.Expr]:
    match tree:
        case syntax.Expr():
            yield tree
        case tuple() | list():
            for item in tree:
                yield from _expressions(item)
        case dict():
            yield from _expressions(list(tree.values()))


def _named(step: Step) -> str:
    match step:
        case ScopeEnter() | ScopeExit() | FunctionEnter() | FunctionExit():
            return f"the call of {_called(_scope(step))}"
        case Loop():
            return "a loop"
        case _:
            return getattr(step, "operator", None) or f"the call of {getattr(step, 'path', '')}"


def _scope(step: ScopeEnter | ScopeExit | FunctionEnter | FunctionExit) -> Any:
    """Return what a mark enters or leaves: a module's key, or a function."""
    return step.key if isinstance(step, ScopeEnter | ScopeExit) else step.function


def _called(scope: Any) -> str:
    return getattr(scope, "__qualname__", scope) or "the model"
