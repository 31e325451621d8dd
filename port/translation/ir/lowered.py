"""The lowered graph: a run as JAX expressions over arrays, each with its layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from port.translation.ir import syntax
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, Value
from port.translation.ir.layout import Drawn, Folded, Layout
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.source_location import SourceLocation

UNWRITTEN = "unwritten"
"""The function that the source calls in place of unsupported operators; it raises NotImplementedError."""


@dataclass(frozen=True)
class Assignment:
    """An expression and the values that it is assigned to: one, or a tuple.

    Attributes:
        results: the values; for a layer that returns a tree, that tree.
        expression: the expression.
        several: whether it returns a tuple.
        place: the original's location.
        is_transpose: whether it only changes the layout.
        path: the path of the layer that it calls, if it calls one.
    """

    results: Any
    expression: syntax.Expr
    several: bool = False
    place: SourceLocation | None = None
    is_transpose: bool = False
    path: str | None = None


@dataclass(frozen=True)
class Scan:
    """A loop in the form of `jax.lax.scan`.

    Attributes:
        carried: the carries inside an iteration.
        sliced: the slices inside an iteration.
        first: the initial carries.
        whole: the sliced arrays, with the loop's axis first.
        last: the final carries.
        stacked: the stacked outputs, with the loop's axis first.
        next: the carries that an iteration passes on.
        outputs: the outputs of an iteration.
        length: the number of iterations; None if the sliced arrays determine it.
        reverse: whether it begins at the arrays' end.
        stateful: whether an iteration changes the module.
        steps: the steps of one iteration.
        place: the loop's location.
    """

    carried: tuple[Value, ...]
    sliced: tuple[Value, ...]
    first: tuple[syntax.Expr, ...]
    whole: tuple[syntax.Expr, ...]
    last: tuple[Value, ...]
    stacked: tuple[Value, ...]
    next: tuple[syntax.Expr, ...]
    outputs: tuple[syntax.Expr, ...]
    length: syntax.Expr | None
    reverse: bool
    stateful: bool
    steps: tuple[LoweredStep, ...]
    place: SourceLocation | None

    @property
    def expressions(self) -> tuple[syntax.Expr, ...]:
        return (*self.first, *self.whole, *self.next, *self.outputs)


LoweredStep: TypeAlias = "Assignment | ScopeEnter | ScopeExit | FunctionEnter | FunctionExit | Scan"


def each_lowered(steps: Iterable[LoweredStep]) -> Iterator[LoweredStep]:
    """Yield all steps; a loop's steps come before the loop itself."""
    for step in steps:
        if isinstance(step, Scan):
            yield from each_lowered(step.steps)
        yield step


@dataclass(frozen=True)
class Unsupported:
    """An operator or a layer that no pair covers, with the reason."""

    what: str
    why: str
    place: SourceLocation | None


@dataclass(frozen=True)
class LoweredGraph:
    """A run as JAX expressions. It is immutable.

    Attributes:
        graph: the captured graph.
        steps: assignments and scans, between the marks of calls of modules and functions.
        layouts: array → layout.
        folds: path of a linear layer → the fold of its input.
        notes: id of a semantic difference → the locations where it applies.
        unwritten: what is unsupported.
        values: name → value.
        extras: path of a module → its attributes that exist only in JAX (dropouts, random streams) → constructions.
        written: names of buffers and parameters that the run writes to → their new values.
        homes: the same names → the variables to write to.
        draws: the layouts of random draws, in order; those of a loop's iteration as one tuple.
        returned: the root's result expressions → their layouts.
    """

    graph: Graph
    steps: tuple[LoweredStep, ...]
    layouts: Mapping[Value, Layout]
    folds: Mapping[str, Folded]
    notes: Mapping[str, tuple[SourceLocation | None, ...]]
    unwritten: tuple[Unsupported, ...]
    values: Mapping[str, Value]
    extras: Mapping[str, Mapping[str, syntax.Expr]]
    written: Mapping[str, syntax.Expr]
    homes: Mapping[str, syntax.Expr]
    draws: tuple[Drawn, ...]
    returned: Mapping[syntax.Expr, Layout]
