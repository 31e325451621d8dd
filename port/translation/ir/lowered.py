"""What the layout stage gives: the same run as JAX expressions over arrays, each with its layout."""

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
"""What the source calls where something has to be written by hand; it raises NotImplementedError."""


@dataclass(frozen=True)
class Assignment:
    """An expression and the values that it makes: one, or several at once as a tuple.

    Attributes:
        results: the values; of a layer that gives a tree, that tree.
        expression: its source.
        several: whether it gives a tuple.
        place: where in the original it stands.
        is_transpose: whether it only moves axes, for the sake of the layout.
        path: of the layer that it calls, if it does.
    """

    results: Any
    expression: syntax.Expr
    several: bool = False
    place: SourceLocation | None = None
    is_transpose: bool = False
    path: str | None = None


@dataclass(frozen=True)
class Scan:
    """A loop: what it takes and gives as expressions, and what a round does.

    Attributes:
        carried: what each round takes from the one before, as it is called within.
        sliced: what each round takes of arrays, as it is called within.
        first: what the first round takes.
        whole: the arrays, the axis that is gone along in front.
        last: what the last round leaves.
        stacked: what all rounds give, with the rounds in front.
        next: what a round hands on.
        given: what a round gives.
        length: how many rounds there are; None where the arrays say it.
        reverse: whether it begins at the arrays' end.
        stateful: whether a round changes the module.
    """

    carried: tuple[Value, ...]
    sliced: tuple[Value, ...]
    first: tuple[syntax.Expr, ...]
    whole: tuple[syntax.Expr, ...]
    last: tuple[Value, ...]
    stacked: tuple[Value, ...]
    next: tuple[syntax.Expr, ...]
    given: tuple[syntax.Expr, ...]
    length: syntax.Expr | None
    reverse: bool
    stateful: bool
    steps: tuple[LoweredStep, ...]
    place: SourceLocation | None

    @property
    def expressions(self) -> tuple[syntax.Expr, ...]:
        return (*self.first, *self.whole, *self.next, *self.given)


LoweredStep: TypeAlias = "Assignment | ScopeEnter | ScopeExit | FunctionEnter | FunctionExit | Scan"


def each_lowered(steps: Iterable[LoweredStep]) -> Iterator[LoweredStep]:
    """All steps, a loop's before the loop itself."""
    for step in steps:
        if isinstance(step, Scan):
            yield from each_lowered(step.steps)
        yield step


@dataclass(frozen=True)
class Unsupported:
    """An operator or a layer that no pair speaks of."""

    what: str
    why: str
    place: SourceLocation | None


@dataclass(frozen=True)
class LoweredGraph:
    """The run in JAX's terms. It is never changed.

    Attributes:
        graph: what it was made from.
        steps: assignments, between the marks of the modules' and the functions' calls.
        layouts: of every array.
        folds: path of a linear layer → the flattened block that its inputs are.
        notes: id of a difference → the places where it was met.
        unwritten: what could not be said in JAX.
        values: every value by its name.
        extras: path of a module → attributes that it has in JAX alone (dropouts, random streams) → what makes them.
        written: names of buffers, and of parameters, that the run writes to → the values.
        homes: the same names → the variables that are written to.
        draws: layouts of what is drawn at random, in order; those of a loop's round together.
        returned: layouts of what the whole module gives, by the expressions.
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
