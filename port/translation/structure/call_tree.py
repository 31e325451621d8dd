"""The graph as a tree of calls: which module called which, and what each computed itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from port.translation.ir import syntax
from port.translation.ir.expr import values_in
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Value, each_value
from port.translation.ir.lowered import Assignment, LoweredGraph, LoweredStep, Scan
from port.translation.ir.module_calls import FORWARD, ScopeEnter, ScopeExit, key_of
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.call_results import with_arrays


@dataclass(frozen=True, eq=False)
class ModuleCall:
    """A call of a module's ``forward`` or of another of its methods.

    Attributes:
        path: the module's path.
        module: the torch module.
        parameters: names of the method's parameters → the expressions passed for them.
        results: the return value, a tree of expressions.
        place: the line that calls it.
        items: its assignments and calls, in order.
        writes: names of the buffers that it writes → expressions.
        method: the method that is called.
    """

    path: str
    module: Any
    parameters: Mapping[str, Any]
    place: SourceLocation | None
    results: Any = None
    items: tuple[Item, ...] = ()
    writes: Mapping[str, syntax.Expr] = field(default_factory=dict)
    method: str = FORWARD

    @property
    def key(self) -> str:
        """`key_of` the path and the method."""
        return key_of(self.path, self.method)

    @property
    def function(self) -> Any:
        return getattr(type(self.module), self.method)


@dataclass(frozen=True, eq=False)
class Repeated:
    """A loop, and the items of one iteration.

    Attributes:
        path: of the module whose code contains the loop.
        scan: the loop's inputs and outputs.
        items: the items of one iteration, as in a call.
    """

    path: str
    scan: Scan
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, eq=False)
class FunctionCall:
    """A call of one of the original's functions.

    Attributes:
        path: of the module whose code contains the call.
        enter: which function is called, and its arguments.
        results: the return value, a tree of expressions.
        items: its assignments and calls, as in a module's call.
    """

    path: str
    enter: FunctionEnter
    results: Any = None
    items: tuple[Item, ...] = ()

    @property
    def key(self) -> str:
        return self.path

    @property
    def function(self) -> Any:
        return self.enter.function

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.enter.arguments

    @property
    def place(self) -> SourceLocation | None:
        return self.enter.place

    @property
    def writes(self) -> Mapping[str, syntax.Expr]:
        """A function writes no buffers: its caller writes what it returns."""
        return {}


Call: TypeAlias = "ModuleCall | FunctionCall"
Item: TypeAlias = "Assignment | ModuleCall | FunctionCall | Repeated"


def calls_in(items: Iterable[Item]) -> Iterator[ModuleCall]:
    """Yield the calls among some items, and those in loops and functions."""
    for item in items:
        match item:
            case ModuleCall():
                yield item
            case Repeated() | FunctionCall():
                yield from calls_in(item.items)


def function_calls_in(items: Iterable[Item]) -> Iterator[FunctionCall]:
    """Yield the calls of functions among some items, and all within calls and loops."""
    for item in items:
        if isinstance(item, FunctionCall):
            yield item
        if not isinstance(item, Assignment):
            yield from function_calls_in(item.items)


def made_by(item: Item) -> Iterator[Value]:
    """Yield the values that an item computes, calls inside it included."""
    match item:
        case Assignment():
            yield from each_value(item.results)
        case ModuleCall() | FunctionCall():
            for inner in item.items:
                yield from made_by(inner)
        case Repeated():
            yield from (*item.scan.last, *item.scan.stacked)


def call_tree(lowered: LoweredGraph, dissolved: set[str], tree: ModuleTree) -> ModuleCall:
    """Build the call of the root module, with all other calls inside it.

    Args:
        lowered: the lowered graph.
        dissolved: `key_of` the calls to inline where they are called, except for modules in a Sequential.
        tree: the module tree.
    """
    first = next(number for number, step in enumerate(lowered.steps) if isinstance(step, ScopeEnter))
    root = lowered.steps[first]
    assert isinstance(root, ScopeEnter)
    made, results = _Reader(dissolved, tree, lowered.values).read(root.path, iter(lowered.steps[first + 1 :]))
    before = (step for step in lowered.steps[:first] if isinstance(step, Assignment))
    call = ModuleCall(root.path, root.module, root.arguments, root.place, results, (*before, *made))
    return _with_writes(call, _writes_by_maker(call, lowered.written))


class _Reader:
    """Reads the steps of calls and of loops.

    Args:
        dissolved: `key_of` the calls to inline where they are called.
        tree: the module tree.
        values: the values of the graph, by their names.
    """

    def __init__(self, dissolved: set[str], tree: ModuleTree, values: Mapping[str, Value]) -> None:
        self.dissolved, self.tree, self.values = dissolved, tree, values

    def read(self, path: str, steps: Iterator[LoweredStep]) -> tuple[tuple[Item, ...], Any]:
        """Read a module's call, or one loop iteration in its code, up to its end: its items and its return value."""
        items: list[Item] = []
        dissolved: list[str] = []
        for step in steps:
            match step:
                case ScopeEnter() if self._is_dissolved(step, path):
                    dissolved.append(step.key)
                case ScopeEnter():
                    made, results = self.read(step.path, steps)
                    call = ModuleCall(step.path, step.module, step.arguments, step.place, results, made)
                    items.append(replace(call, method=step.method))
                case FunctionEnter():
                    made, results = self.read(path, steps)
                    items.append(FunctionCall(path, step, with_arrays(results, self.values), made))
                case FunctionExit():
                    return tuple(items), step.results
                case ScopeExit() if dissolved:
                    dissolved.pop()
                case ScopeExit():
                    return tuple(items), step.results
                case Scan():
                    made, _ = self.read(path, iter(step.steps))
                    items.append(Repeated(path, step, made))
                case Assignment():
                    items.append(step)
        return tuple(items), None

    def _is_dissolved(self, step: ScopeEnter, path: str) -> bool:
        """Whether a call made by the module at a path is inlined into that module's code."""
        if step.method != FORWARD:
            # Only its own module calls a method, and that module is a class that is written.
            return step.key in self.dissolved or step.path != path or (bool(path) and self.tree.kind(path) != "class")
        return step.path in self.dissolved and self.tree.kind(path) != "sequential"


Writes = Mapping[str, syntax.Expr]


def _writes_by_maker(root: ModuleCall, written: Writes) -> dict[ModuleCall, Writes]:
    """Find the call that computes the new value of each buffer, and so writes it."""
    makers: dict[str, ModuleCall] = {}

    def walk(call: ModuleCall) -> None:
        for inner in calls_in(call.items):
            walk(inner)
        for item in call.items:
            if not isinstance(item, ModuleCall):
                makers.update((value.name, call) for value in made_by(item))

    walk(root)
    found: dict[ModuleCall, dict[str, syntax.Expr]] = {}
    for path, expression in written.items():
        read = values_in(expression)
        maker = makers.get(read[0], root) if len(read) == 1 else root
        found.setdefault(maker, {})[path] = expression
    return dict(found)


def _with_writes(call: ModuleCall, writes: Mapping[ModuleCall, Writes]) -> ModuleCall:
    """Let each buffer be written by the call that computes its new value."""

    def within(item: Item) -> Item:
        match item:
            case ModuleCall():
                return _with_writes(item, writes)
            case Repeated():
                return replace(item, items=tuple(map(within, item.items)))
        return item

    return replace(call, items=tuple(map(within, call.items)), writes=writes.get(call, {})) if writes else call
