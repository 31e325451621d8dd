"""The lowering context: the state that lowering rules read and write."""

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
    """Return the layout: the `Back` of an operator whose result has its operand's layout."""
    return layout


class LoweringContext:
    """The state of lowering one graph.

    A *source* is a value whose layout is free: an input, a parameter, the result of a permutation.

    Attributes:
        preferred: name of a source → the layout that layout assignment chose.
        follows: array → the operand whose layout propagates to it, and a function from a layout of the array to the
            operand's.
        sources: the values whose layout is free.
        through: a permuted array that is an alias → its operand and a function of layouts, as in `follows`.
    """

    def __init__(self, graph: Graph, root: Any, preferred: Mapping[str, Layout], training: bool) -> None:
        self.graph, self.root, self.preferred, self.training = graph, root, preferred, training
        self.scope = ""  # the path of the module whose method is being lowered
        self.read = {value for step in each_step(graph.steps) for value in read_by(step)} | set(graph.written.values())
        # The fields of the lowered graph; its steps are called `lowered` here.
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
        self.copies_outside: list[dict[tuple[Value, Layout], Value]] = []  # one per function entered
        self.function_arguments: list[frozenset[Value]] = []  # one per function entered
        self.numbers = count()  # numbers the copies
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
        """Return the lowered graph."""
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

    # %% Queries

    def owner(self, path: str) -> str | None:
        """Return the path of the leaf layer that holds a parameter; None if a module of the user holds it."""
        parts = path.split(".")
        owners = (".".join(parts[:length]) for length in range(len(parts)))
        return next((owner for owner in owners if owner in self.layers), None)

    def layout(self, value: Value) -> Layout:
        """Return an array's layout."""
        return self.layouts[value]

    def is_argument(self, value: Value) -> bool:
        """Whether an array is an argument of the original's function that is being lowered."""
        return bool(self.function_arguments) and value in self.function_arguments[-1]

    def chosen_layout(self, value: Value) -> Layout | None:
        """Return the layout that was chosen for a source; None if there is none."""
        layout = self.preferred.get(value.name)
        return layout if layout is not None and layout.rank == value.rank else None

    def ref(self, value: Any) -> Any:
        """Return the expression for a value in its current layout; trees are mapped, numbers stay."""
        return mapped(value, self._ref)

    def need(self, value: Value, layout: Layout | None = None) -> syntax.Expr:
        """Return the expression for an array in a layout, by default torch's; transpose it if needed."""
        layout = torchs(value.rank) if layout is None else layout
        has = self.layout(value)
        if has == layout:
            return self._ref(value)
        return self._ref(self._transposed(value, layout))

    def is_read(self, value: Value) -> bool:
        """Whether any step reads a value."""
        return value in self.read

    def extra(self, name: str, construction: syntax.Expr) -> str:
        """Add an attribute to the current module that exists only in JAX; return its name, numbered if taken."""
        known = self.extras.setdefault(self.scope, {})
        wanted, number = name, 2
        while name in known and known[name] != construction:
            name, number = f"{wanted}{number}", number + 1
        known[name] = construction
        return name

    def source_of(self, value: Value) -> Value | None:
        """Return the source whose layout an array follows; None if that layout is not free."""
        while value in self.follows:
            value = self.follows[value][0]
        return value if value in self.sources else None

    def constant(self, value: Value) -> Any:
        """Return the constant tensor that a value is, also through aliases; None if it is not constant."""
        expression = self._ref(value)
        named = ((self.literals.get(constant), tensor) for constant, tensor in self.graph.constants.items())
        return next((tensor for literal, tensor in named if literal is expression), None)

    # %% Results

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
        """Assign a result.

        Args:
            value: the result.
            expression: its expression.
            layout: its layout; by default torch's.
            follows: the operand whose layout propagates to the result.
            back: maps a layout of the result to the layout that the operand would need; by default the same.
            path: the layer that computes the result, if one does.
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
        """Assign the results of an expression that returns a tuple."""
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
        """Assign a layer's result: one array, or a tree of arrays."""
        if isinstance(tree, Value):
            self.give(tree, expression, layouts[tree], follows=follows, path=path)
            return
        self.layouts.update(layouts)
        self._append(Assignment(tree, expression, several=True, place=self.place, path=path))

    def alias(self, value: Value, of: Value, layout: Layout, *, source: bool = False, back: Back | None = None) -> None:
        """Make a result an alias of an array; with ``source``, layout assignment may also choose its layout."""
        self.layouts[value] = layout
        self.literals[value] = self._ref(of)
        if source:
            self.sources.add(value)
            self.through[value] = (of, back or same)
        else:
            self.follows[value] = (of, back or same)

    def permute(self, value: Value, of: syntax.Expr, before: Layout, layout: Layout) -> None:
        """Emit a permutation where the original has it, because a layout was chosen for its result."""
        self.give(value, transposed(of, moved(before, layout)), layout)

    def suggest(self, value: Value, layout: Layout) -> None:
        """Record a layout preference of a source; only a dry run uses it."""

    def materialise(self, value: Value) -> None:
        """Materialise a value as a local: a module that gets it as an argument cannot reach its attribute."""
        if value.shape is None or isinstance(self._ref(value), syntax.Use):
            return
        copy = Value(f"{value.name}_held", value.shape, value.dtype)
        self.layouts[copy] = self.layout(value)
        self._append(Assignment((copy,), self._ref(value), place=self.place))
        self.literals[value] = ref(copy)

    def result(self, value: Value) -> Any:
        """Return the expression of a result of the root module, in torch's layout or channels last."""
        if value.shape is None:
            return self._ref(value)
        layout = replace(self.layout(value), folded=None)
        orders = (torchs(value.rank), channels_last(value.rank, 1)) if value.rank > 2 else (torchs(value.rank),)
        # The original may return one array as two tensors, one a permutation of the other.
        for wanted in (layout, *orders):
            if wanted in orders:
                expression = self.need(value, wanted)
                if self.returned.setdefault(expression, wanted) == wanted:
                    break
        return expression

    def write(self, path: str, value: Value) -> None:
        """Write the new value of a buffer or a parameter."""
        held = next(held for held, name in self.graph.held.items() if name == path)
        if self._ref(value) is self.literals.get(value) and not isinstance(self._ref(value), syntax.Use):
            return  # its value did not change
        written = self.need(value, self.layout(held))
        if self.owner(path) is not None:
            # The layer reads it afterwards, and in torch it carries no gradient.
            written = code("jax.lax.stop_gradient(x)", x=written)
        self.written[path] = written
        self.homes[path] = self.literals[held]

    def note(self, *ids: str) -> None:
        """Record the ids of semantic differences that apply at the current location."""
        for name in ids:
            self.notes.setdefault(name, []).append(self.place)

    def refuse(self, what: str, why: str, results: tuple[Value, ...]) -> None:
        """Mark the current location as unsupported in the source."""
        self.unwritten.append(Unsupported(what, why, self.place))
        expression = code(f"{UNWRITTEN}(what)", what=what)
        for value in results:
            if value.shape is not None:
                self.layouts[value] = torchs(value.rank)
        self._append(Assignment(results, expression, several=len(results) > 1, place=self.place))

    def enter_function(self, arguments: Iterable[Value] = ()) -> None:
        """Enter a function; transposed copies made outside it are not visible inside.

        Args:
            arguments: the arrays among the function's arguments.
        """
        self.copies_outside.append(self.copies)
        self.function_arguments.append(frozenset(arguments))
        self.copies = {}

    def leave_function(self) -> None:
        """Leave a function; transposed copies made inside it are not visible outside."""
        self.copies = self.copies_outside.pop()
        self.function_arguments.pop()

    @contextmanager
    def within(self) -> Iterator[list[LoweredStep]]:
        """Collect steps in a separate list; transposed copies and aliases made inside are dropped afterwards."""
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
