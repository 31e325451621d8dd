"""Find functions whose internal values are read outside without being returned, such as values written in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import literal, values_in
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import each_value
from port.translation.ir.lowered import Assignment, LoweredGraph, LoweredStep, Scan
from port.translation.ir.module_calls import ScopeEnter, ScopeExit

Around = tuple[tuple[FunctionType, int], ...]
"""The calls of functions around a step, outermost first."""


def escaping(lowered: LoweredGraph) -> set[FunctionType]:
    """The functions that return nothing that they compute, or compute what is read outside without being returned."""
    walk = _Walk(lowered)
    walk.steps(lowered.steps, ())
    for expression in lowered.written.values():
        walk.read(values_in(expression), ())
    return walk.found


class _Walk:
    def __init__(self, lowered: LoweredGraph) -> None:
        self.lowered = lowered
        self.made: dict[str, Around] = {}
        self.returned: dict[tuple[FunctionType, int], set[str]] = {}
        self.found: set[FunctionType] = set()

    def steps(self, steps: Iterable[LoweredStep], around: Around) -> None:
        for step in steps:
            match step:
                case Assignment():
                    self.read(values_in(step.expression), around)
                    self.made.update((value.name, around) for value in each_value(step.results))
                case FunctionEnter():
                    self.read(_values(step.arguments), around)
                    around = (*around, (step.function, step.call))
                case FunctionExit():
                    around = self._leave(step, around)
                case ScopeEnter():
                    self.read(_values(step.arguments), around)
                case ScopeExit():
                    self.read(_values(step.results), around)
                case Scan():
                    self.read(values_in(*step.first, *step.whole), around)
                    self.steps(step.steps, around)
                    self.read(values_in(*step.next, *step.outputs), around)
                    self.made.update((value.name, around) for value in (*step.last, *step.stacked))

    def _leave(self, step: FunctionExit, around: Around) -> Around:
        returned = set(_values(step.results))
        self.read(returned, around)
        self.returned[around[-1]] = returned
        if not any(around[-1] in self.made.get(name, ()) for name in returned):
            self.found.add(step.function)
        return around[:-1]

    def read(self, names: Iterable[str], around: Around) -> None:
        """Record a read: a function around their computation, but not around the reader, must return them."""
        for name in names:
            for call in self.made.get(name, ()):
                if call not in around and name not in self.returned.get(call, ()):
                    self.found.add(call[0])


def _values(tree: Any) -> Iterator[str]:
    match tree:
        case syntax.Expr():
            yield from values_in(literal(tree))
        case tuple() | list():
            for item in tree:
                yield from _values(item)
        case dict():
            yield from _values(list(tree.values()))
