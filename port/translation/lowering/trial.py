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
"""An array, and a layout that it has not and that a reader needs."""


@dataclass
class Went:
    """What a step needs with the layouts that there are.

    Attributes:
        asks: what it has to transpose → where it stands.
        suggestions: layouts that sources might well have.
        turned: those of ``asks`` that a product of matrices needs, which takes a matrix either way.
        moved: the permutations that are written where the original has them → how many elements they move.
        refused: how many operators cannot be said so.
    """

    asks: dict[Ask, SourceLocation | None] = field(default_factory=dict)
    suggestions: list[Ask] = field(default_factory=list)
    turned: set[Ask] = field(default_factory=set)
    moved: dict[Value, int] = field(default_factory=dict)
    refused: int = 0


State = tuple[Layout | None, tuple[Value, Back] | None, bool]
"""Of a value: its layout, what it follows, and whether it is a source."""


class Trial(LoweringContext):
    """The rules of lowering, asked for layouts.

    Attributes:
        steps: those that have a say in layouts, and whose results are read.
        went: what each of them needs.
        readers: a value → the numbers of the steps that read it.
        makes: the values that each step makes.
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
        self.now = Went()
        self.copied: dict[Value, Value] = {}  # an array under another name → the one that it is
        begin(self)
        for value in graph.constants:
            self.literals[value] = ref(value)
        self.went = [self.go(number) for number in range(len(self.steps))]

    def go(self, number: int) -> Went:
        """Go through a step with the layouts that there are; its results get theirs."""
        self.now, self.step = Went(), self.steps[number]
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
        """How many elements an array has at the example's lengths; a length that those do not say counts as one."""
        count = 1
        for size in value.shape or ():
            try:
                count *= int(evaluated(size, self.example))
            except (NameError, ArithmeticError):
                continue
        return count

    def weight(self, number: int) -> int:
        """How often a step is carried out."""
        step = self.steps[number]
        if not isinstance(step, Loop):
            return 1
        return self.elements(Value("", (step.length,), "size"))

    def reached_by(self, ask: Ask) -> Iterator[Ask]:
        """The sources that would give an array the layout that it is asked for, and which layout each would need."""
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
        """Whether a value may be given a layout, or was given one."""
        return value in self.sources or value.name in self.preferred

    # %% Nothing is written

    def _ref(self, value: Value) -> Any:
        return self.literals.get(value) or ref(value)

    def _append(self, assignment: Any) -> None:
        pass

    def _transposed(self, value: Value, layout: Layout) -> Value:
        if layout.folded is not None and layout.folded != self.layout(value).folded:
            raise NoPair("a flattened axis cannot be brought into another order of its elements here")
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

    def settle(self, value: Value) -> None:
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
    """Whether an array is brought to another layout by a swap of its last two axes alone."""
    *rest, row, column = before.order if before.rank > 1 else (0, 0)
    return after.order == (*rest, column, row)


def _live(graph: Graph) -> list[Step]:
    """The steps that have a say in layouts: operators and layers, and what the whole module gives."""
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
