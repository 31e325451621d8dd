"""A dry run of the lowering for layouts alone: nothing is emitted, and a step can be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from port.errors import NoPair
from port.translation.ir.expr import ref
from port.translation.ir.graph import Graph, LayerCall, Loop, Operation, Step, Value, each_step, each_value, read_by
from port.translation.ir.layout import Layout
from port.translation.ir.module_calls import ScopeExit
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.symbolic_lengths import evaluated
from port.translation.lowering.context import Back, LoweringContext, same
from port.translation.lowering.lower_graph import begin, lower_step

Ask = tuple[Value, Layout]
"""A request: an array, and a layout other than its own that a reader needs."""


@dataclass
class StepNeeds:
    """A step's needs under the current layouts.

    Attributes:
        asks: the arrays that it has to transpose → the source location.
        suggestions: layout preferences of sources.
        turned: those of ``asks`` that are free: a matrix product takes either order of a matrix's axes.
        moved: the permutations emitted where the original has them → the number of elements that they move.
        refused: the number of unsupported operators.
    """

    asks: dict[Ask, SourceLocation | None] = field(default_factory=dict)
    suggestions: list[Ask] = field(default_factory=list)
    turned: set[Ask] = field(default_factory=set)
    moved: dict[Value, int] = field(default_factory=dict)
    refused: int = 0


State = tuple[Layout | None, tuple[Value, Back] | None, bool]
"""A value's layout, the operand that it follows, and whether it is a source."""


class Trial(LoweringContext):
    """A lowering context that records layouts and emits nothing.

    Attributes:
        steps: the steps that affect layouts and whose results are read.
        needs: the needs of each step.
        readers: value → the numbers of the steps that read it.
        makes: the values that each step defines.
    """

    def __init__(
        self, graph: Graph, root: Any, preferred: Mapping[str, Layout], training: bool, example: Mapping[str, int]
    ) -> None:
        super().__init__(graph, root, preferred, training)
        self.example = dict(example)
        self.steps = _live(graph)
        self.makes = [_made(step) for step in self.steps]
        self.readers: dict[Value, list[int]] = {}
        for number, step in enumerate(self.steps):
            for value in _read(step, graph):
                self.readers.setdefault(value, []).append(number)
        self.now = StepNeeds()
        self.copied: dict[Value, Value] = {}  # alias → the array
        begin(self)
        for value in graph.constants:
            self.literals[value] = ref(value)
        self.needs = [self.rerun(number) for number in range(len(self.steps))]

    def rerun(self, number: int) -> StepNeeds:
        """Rerun a step under the current layouts; set its results' layouts."""
        self.now, self.step = StepNeeds(), self.steps[number]
        for value in self.makes[number]:
            self.follows.pop(value, None)
            self.sources.discard(value)
        self.lowered = []
        self.returned.clear()
        lower_step(self, self.step, [""])
        return self.now

    def state(self, value: Value) -> State:
        return self.layouts.get(value), self.follows.get(value), value in self.sources

    def restore(self, value: Value, state: State) -> None:
        layout, follows, source = state
        if layout is None:
            self.layouts.pop(value, None)
        else:
            self.layouts[value] = layout
        if follows is None:
            self.follows.pop(value, None)
        else:
            self.follows[value] = follows
        (self.sources.add if source else self.sources.discard)(value)

    def elements(self, value: Value) -> int:
        """Return an array's number of elements at the example's lengths; unknown lengths count as one."""
        count = 1
        for size in value.shape or ():
            try:
                count *= int(evaluated(size, self.example))
            except (NameError, ArithmeticError):
                continue
        return count

    def weight(self, number: int) -> int:
        """Return how often a step runs."""
        step = self.steps[number]
        if not isinstance(step, Loop):
            return 1
        return self.elements(Value("", (step.length,), "size"))

    def reached_by(self, ask: Ask) -> Iterator[Ask]:
        """Yield the sources that could satisfy a request, each with the layout that it would need."""
        value, wanted = ask
        while True:
            if self.is_free(value) and wanted.folded is None and wanted.rank == value.rank:
                yield value, wanted
            before = self.follows.get(value) or self.through.get(value)
            layout = None if before is None else before[1](wanted)
            if before is None or layout is None:
                return
            value, wanted = before[0], layout

    def is_free(self, value: Value) -> bool:
        """Whether a value's layout is free, or was chosen."""
        return value in self.sources or value.name in self.preferred

    # %% Overrides that emit nothing

    def _ref(self, value: Value) -> Any:
        return self.literals.get(value) or ref(value)

    def _append(self, assignment: Any) -> None:
        pass

    def _transposed(self, value: Value, layout: Layout) -> Value:
        if layout.folded is not None and layout.folded != self.layout(value).folded:
            raise NoPair("the elements of a flattened axis cannot be reordered here")
        self.now.asks.setdefault((value, layout), self.place)
        if _is_product(self.step) and _turns_matrices(self.layout(value), layout):
            self.now.turned.add((value, layout))
        return value

    def alias(self, value: Value, of: Value, layout: Layout, *, source: bool = False, back: Back | None = None) -> None:
        self.layouts[value] = layout
        self.copied[value] = of
        if source:
            self.sources.add(value)
            self.through[value] = (of, back or same)
        else:
            self.follows[value] = (of, back or same)

    def permute(self, value: Value, of: Any, before: Layout, layout: Layout) -> None:
        self.layouts[value] = layout
        only_turned = _turns_matrices(before, layout) and all(
            _is_product(self.steps[number]) for number in self.readers.get(value, ())
        )
        self.now.moved[value] = 0 if only_turned else self.elements(value)

    def suggest(self, value: Value, layout: Layout) -> None:
        self.now.suggestions.append((value, layout))

    def materialise(self, value: Value) -> None:
        pass

    def extra(self, name: str, construction: Any) -> str:
        return name

    def note(self, *ids: str) -> None:
        pass

    def refuse(self, what: str, why: str, results: tuple[Value, ...]) -> None:
        self.now.refused += 1
        super().refuse(what, why, results)

    def write(self, path: str, value: Value) -> None:
        held = next(held for held, name in self.graph.held.items() if name == path)
        while value in self.copied and value is not held:
            value = self.copied[value]
        if value is not held:
            self.need(value, self.layout(held))


_PRODUCTS = ("aten.matmul", "aten.mm", "aten.bmm", "aten.baddbmm", "aten.addmm")


def _is_product(step: Step) -> bool:
    return isinstance(step, Operation) and step.operator.rpartition(".")[0] in _PRODUCTS


def _turns_matrices(before: Layout, after: Layout) -> bool:
    """Whether two layouts differ only in a swap of the last two axes."""
    *rest, row, column = before.order if before.rank > 1 else (0, 0)
    return after.order == (*rest, column, row)


def _live(graph: Graph) -> list[Step]:
    """Return the steps that affect layouts: operators, layers, loops, and the root's results."""
    needed = set(graph.written.values())
    found: list[Step] = []
    for step in reversed(graph.steps):
        match step:
            case ScopeExit() if step.is_roots:
                pass
            case Operation() if needed & set(step.results):
                pass
            case LayerCall() | Loop():
                pass
            case _:
                continue
        needed.update(_read(step, graph))
        found.append(step)
    return found[::-1]


def _read(step: Step, graph: Graph) -> set[Value]:
    read = {value for inner in each_step([step]) for value in read_by(inner)}
    return read | set(graph.written.values()) if isinstance(step, ScopeExit) else read


def _made(step: Step) -> list[Value]:
    made: list[Value] = []
    for inner in each_step([step]):
        if isinstance(inner, Operation | LayerCall | Loop):
            made += each_value(inner.results)
        if isinstance(inner, Loop):
            made += [each.inside for each in inner.carried]
            made += [each.inside for each in inner.sliced]
    return made
