"""What the rules of lowering read from, and write to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from port.translation.frontend.leaf_modules import calls_of, kept_layers, shared_layers
from port.translation.ir import syntax
from port.translation.ir.expr import code, ref
from port.translation.ir.graph import Graph, Operation, Value, each_step, each_value, mapped, read_by
from port.translation.ir.idle_modules import idle_modules
from port.translation.ir.layout import Drawn, Folded, Layout, channels_last, moved, torchs
from port.translation.ir.lowered import UNWRITTEN, Assignment, LoweredGraph, LoweredStep, Unsupported
from port.translation.ir.source_location import SourceLocation
from port.translation.lowering.alike_views import AlikeViews
from port.translation.lowering.stopped_gradients import read_past_no_grad
from port.translation.lowering.transposes import brought, transposed

Back = Callable[[Layout], Layout | None]


def same(layout: Layout) -> Layout | None:
    return layout


class LoweringContext:
    """One way through a graph. Rules read from it and write to it.

    Attributes:
        preferred: name of a source → the layout that it was given.
        follows: an array → the operand whose layout it has, and which layout that would need for one of the array's.
        sources: what lies as its readers want it, unless it was given a layout.
        through: a permuted array that is written nowhere → the same for what it is a permutation of.
    """

    def __init__(self, graph: Graph, root: Any, preferred: Mapping[str, Layout], training: bool) -> None:
        self.graph, self.root, self.preferred, self.training = graph, root, preferred, training
        self.scope = ""  # the path of the module whose code this is
        self.read = {value for step in each_step(graph.steps) for value in read_by(step)} | set(graph.written.values())
        # What becomes the lowered graph, field by field; its steps are called `lowered`.
        self.lowered: list[LoweredStep] = []
        self.layouts: dict[Value, Layout] = {}
        self.folds: dict[str, Folded] = {}
        self.notes: dict[str, list[SourceLocation | None]] = {}
        self.unwritten: list[Unsupported] = []
        self.values: dict[str, Value] = {}
        self.extras: dict[str, dict[str, syntax.Expr]] = {}
        self.written: dict[str, syntax.Expr] = {}
        self.homes: dict[str, syntax.Expr] = {}
        self.draws: list[Drawn] = []
        self.returned: dict[syntax.Expr, Layout] = {}

        self.follows: dict[Value, tuple[Value, Back]] = {}
        self.through: dict[Value, tuple[Value, Back]] = {}
        self.sources: set[Value] = set()
        self.copies: dict[tuple[Value, Layout], Value] = {}
        self.copies_outside: list[dict[tuple[Value, Layout], Value]] = []  # of the functions that are entered
        self.given_to: list[frozenset[Value]] = []  # what each of these is given
        self.numbers = count()  # of the copies
        self.literals: dict[Value, syntax.Expr] = {}
        self.place: SourceLocation | None = None
        self.cut = read_past_no_grad(graph)
        self.layers, self.idle = kept_layers(root), idle_modules(root)
        self.calls = calls_of(each_step(graph.steps))
        self.shared = shared_layers(root, self.layers)
        self.views = AlikeViews(graph)
        self.producers = {
            result: step for step in each_step(graph.steps) if isinstance(step, Operation) for result in step.results
        }

    def graph_lowered(self) -> LoweredGraph:
        """What the rules have told, as the lowered graph."""
        return LoweredGraph(
            self.graph,
            tuple(self.lowered),
            self.layouts,
            self.folds,
            {note: tuple(places) for note, places in self.notes.items()},
            tuple(self.unwritten),
            self.values,
            self.extras,
            self.written,
            self.homes,
            tuple(self.draws),
            self.returned,
        )

    # %% What rules ask

    def owner(self, path: str) -> str | None:
        """The layer kept whole that holds a parameter; None if that is a module of the user's own."""
        parts = path.split(".")
        owners = (".".join(parts[:length]) for length in range(len(parts)))
        return next((owner for owner in owners if owner in self.layers), None)

    def layout(self, value: Value) -> Layout:
        """The layout of an array."""
        return self.layouts[value]

    def is_argument(self, value: Value) -> bool:
        """Whether the function of the original's whose code this is has an array as an argument."""
        return bool(self.given_to) and value in self.given_to[-1]

    def given(self, value: Value) -> Layout | None:
        """The layout that a source was given; None if it was given none."""
        layout = self.preferred.get(value.name)
        return layout if layout is not None and layout.rank == value.rank else None

    def ref(self, value: Any) -> Any:
        """The expression for a value in the layout that it has; numbers and trees as they are."""
        return mapped(value, self._ref)

    def need(self, value: Value, layout: Layout | None = None) -> syntax.Expr:
        """The expression for an array in a layout; by default torch's own."""
        layout = torchs(value.rank) if layout is None else layout
        has = self.layout(value)
        if has == layout:
            return self._ref(value)
        return self._ref(self._transposed(value, layout))

    def is_read(self, value: Value) -> bool:
        """Whether any step takes a value."""
        return value in self.read

    def extra(self, name: str, construction: syntax.Expr) -> str:
        """An attribute that the module at hand has in JAX alone: its name, with a number where another has that."""
        known = self.extras.setdefault(self.scope, {})
        wanted, number = name, 2
        while name in known and known[name] != construction:
            name, number = f"{wanted}{number}", number + 1
        known[name] = construction
        return name

    def source_of(self, value: Value) -> Value | None:
        """The source whose layout an array follows, if it is free to lie otherwise."""
        while value in self.follows:
            value = self.follows[value][0]
        return value if value in self.sources else None

    def constant(self, value: Value) -> Any:
        """The tensor of numbers that a value is, maybe under another name; None if it is none."""
        expression = self._ref(value)
        named = ((self.literals.get(constant), tensor) for constant, tensor in self.graph.constants.items())
        return next((tensor for literal, tensor in named if literal is expression), None)

    # %% What rules tell

    def give(
        self,
        value: Value,
        expression: syntax.Expr,
        layout: Layout | None = None,
        *,
        follows: Value | None = None,
        back: Back | None = None,
        path: str | None = None,
    ) -> None:
        """A result, its layout, the operand whose layout it has because it has it, and the layer that gives it.

        ``back`` says which layout the operand would have to have for one of the result; by default the same.
        """
        self.layouts[value] = torchs(value.rank) if layout is None else layout
        if follows is not None:
            self.follows[value] = (follows, back or same)
        self._append(Assignment((value,), expression, place=self.place, path=path))

    def give_several(
        self,
        values: tuple[Value, ...],
        expression: syntax.Expr,
        layouts: list[Layout],
        follows: Value | None = None,
        back: Back | None = None,
    ) -> None:
        """The results of an expression that gives a tuple."""
        if len(values) == 1:
            only = syntax.Subscript(expression, syntax.Const(0))
            self.give(values[0], only, layouts[0], follows=follows, back=back)
            return
        for value, layout in zip(values, layouts, strict=True):
            self.layouts[value] = layout
            if follows is not None:
                self.follows[value] = (follows, back or same)
        self._append(Assignment(values, expression, several=True, place=self.place))

    def give_tree(
        self, tree: Any, expression: syntax.Expr, layouts: dict[Value, Layout], follows: Value | None, path: str
    ) -> None:
        """What a layer gives: one array, or a tree of them."""
        if isinstance(tree, Value):
            self.give(tree, expression, layouts[tree], follows=follows, path=path)
            return
        self.layouts.update(layouts)
        self._append(Assignment(tree, expression, several=True, place=self.place, path=path))

    def alias(self, value: Value, of: Value, layout: Layout, *, source: bool = False, back: Back | None = None) -> None:
        """A result that is the same array under another name; a ``source`` may also be given a layout of its own."""
        self.layouts[value] = layout
        self.literals[value] = self._ref(of)
        if source:
            self.sources.add(value)
            self.through[value] = (of, back or same)
        else:
            self.follows[value] = (of, back or same)

    def permute(self, value: Value, of: syntax.Expr, before: Layout, layout: Layout) -> None:
        """A permutation that is written where the original has it, as the result was given a layout."""
        self.give(value, transposed(of, moved(before, layout)), layout)

    def suggest(self, value: Value, layout: Layout) -> None:
        """A layout that a source might well have, whoever reads it."""

    def settle(self, value: Value) -> None:
        """See that a value has a name of its own: it is given to a module that cannot reach what it is read from."""
        if value.shape is None or isinstance(self._ref(value), syntax.Use):
            return
        copy = Value(f"{value.name}_held", value.shape, value.dtype)
        self.layouts[copy] = self.layout(value)
        self._append(Assignment((copy,), self._ref(value), place=self.place))
        self.literals[value] = ref(copy)

    def result(self, value: Value) -> Any:
        """What the whole module gives: in torch's order of axes, or with the channels last."""
        if value.shape is None:
            return self._ref(value)
        layout = replace(self.layout(value), folded=None)
        orders = (torchs(value.rank), channels_last(value.rank, 1)) if value.rank > 2 else (torchs(value.rank),)
        # One array may be given as two tensors, of which one is a permutation of the other.
        for wanted in (layout, *orders):
            if wanted in orders:
                expression = self.need(value, wanted)
                if self.returned.setdefault(expression, wanted) == wanted:
                    break
        return expression

    def write(self, path: str, value: Value) -> None:
        """The new value of a buffer, or of a parameter: it is written where it is made."""
        held = next(held for held, name in self.graph.held.items() if name == path)
        if self._ref(value) is self.literals.get(value) and not isinstance(self._ref(value), syntax.Use):
            return  # it was read and left as it is
        written = self.need(value, self.layout(held))
        if self.owner(path) is not None:
            written = code(
                "jax.lax.stop_gradient(x)", x=written
            )  # the layer reads it behind this, and torch had cut it
        self.written[path] = written
        self.homes[path] = self.literals[held]

    def note(self, *ids: str) -> None:
        """Differences that a reader should know of, met here."""
        for name in ids:
            self.notes.setdefault(name, []).append(self.place)

    def refuse(self, what: str, why: str, results: tuple[Value, ...]) -> None:
        """Something that cannot be said in JAX: the place is marked in the source."""
        self.unwritten.append(Unsupported(what, why, self.place))
        expression = code(f"{UNWRITTEN}(what)", what=what)
        for value in results:
            if value.shape is not None:
                self.layouts[value] = torchs(value.rank)
        self._append(Assignment(results, expression, several=len(results) > 1, place=self.place))

    def enter_function(self, given: Iterable[Value] = ()) -> None:
        """What is copied into other layouts outside a function is nothing that it is given.

        Args:
            given: the arrays that a function of the original's is given.
        """
        self.copies_outside.append(self.copies)
        self.given_to.append(frozenset(given))
        self.copies = {}

    def leave_function(self) -> None:
        """Nor does it give what it has copied."""
        self.copies = self.copies_outside.pop()
        self.given_to.pop()

    @contextmanager
    def within(self) -> Iterator[list[LoweredStep]]:
        """Within it, steps go into a list of their own; what they make besides results is not there behind it."""
        before = self.lowered, dict(self.copies), dict(self.literals)
        self.lowered = []
        try:
            yield self.lowered
        finally:
            self.lowered, self.copies, self.literals = before

    # %% Within

    def _append(self, assignment: Assignment) -> None:
        if any(value in self.cut for value in each_value(assignment.results)):
            stopped = code("jax.lax.stop_gradient(x)", x=assignment.expression)
            assignment = replace(assignment, expression=stopped)
        self.lowered.append(assignment)
        for value in each_value(assignment.results):
            self.values[value.name] = value

    def _ref(self, value: Value) -> syntax.Expr:
        return self.literals.get(value) or ref(value)

    def _transposed(self, value: Value, layout: Layout) -> Value:
        key = (value, layout)
        if key not in self.copies:
            copy = Value(f"{value.name}_{next(self.numbers)}t", value.shape, value.dtype)
            expression = brought(self._ref(value), self.layout(value), layout)
            self.layouts[copy] = layout
            self._append(Assignment((copy,), expression, place=self.place, is_transpose=True))
            self.copies[key] = copy
        return self.copies[key]
