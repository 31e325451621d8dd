"""The run as a tree of calls: which module called which, and what each did itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from port.translation.ir import syntax
from port.translation.ir.expr import values_in
from port.translation.ir.graph import ScopeEnter, ScopeExit, SourceLocation, Value, each_value
from port.translation.ir.lowered import Assignment, LoweredGraph, LoweredStep, Scan
from port.translation.ir.module_tree import ModuleTree


@dataclass(eq=False)
class ModuleCall:
    """A call of a module's ``forward``.

    Attributes:
        path: of the module.
        module: the torch module.
        parameters: what it was given, expressions by the names of ``forward``'s parameters.
        results: what it returns: a tree of expressions.
        place: where it is called.
        items: what it does: assignments and calls, in order.
        writes: the buffers that it writes to: their names → expressions.
    """

    path: str
    module: Any
    parameters: dict[str, Any]
    place: SourceLocation | None
    results: Any = None
    items: list[Item] = field(default_factory=list)
    writes: dict[str, syntax.Expr] = field(default_factory=dict)


@dataclass(eq=False)
class Repeated:
    """A loop, and what a round of it does.

    Attributes:
        path: of the module whose code it stands in.
        scan: what it takes and gives.
        items: what a round does, as a call's.
    """

    path: str
    scan: Scan
    items: list[Item] = field(default_factory=list)


Item: TypeAlias = "Assignment | ModuleCall | Repeated"


def calls_in(items: list[Item]) -> Iterator[ModuleCall]:
    """The calls among some items, and those in loops."""
    for item in items:
        match item:
            case ModuleCall():
                yield item
            case Repeated():
                yield from calls_in(item.items)


def made_by(item: Item) -> Iterator[Value]:
    """The values that an item makes, within calls, too."""
    match item:
        case Assignment():
            yield from each_value(item.results)
        case ModuleCall():
            for inner in item.items:
                yield from made_by(inner)
        case Repeated():
            yield from (*item.scan.last, *item.scan.stacked)


def call_tree(placed: LoweredGraph, dissolved: set[str], tree: ModuleTree) -> ModuleCall:
    """The root's call, and in it all others.

    Args:
        placed: the run.
        dissolved: paths of modules whose calls are written out where they are called, but for those in a Sequential.
        tree: of the modules.
    """
    steps = list(placed.steps)
    first = next(number for number, step in enumerate(steps) if isinstance(step, ScopeEnter))
    root = steps[first]
    assert isinstance(root, ScopeEnter)
    call = ModuleCall(root.path, root.module, root.arguments, root.place)
    call.items += [step for step in steps[:first] if isinstance(step, Assignment)]
    rest = iter(steps[first + 1 :])
    _read_items(call, rest, dissolved, tree)
    _give_writes(call, placed)
    return call


def _read_items(
    into: ModuleCall | Repeated, steps: Iterator[LoweredStep], dissolved: set[str], tree: ModuleTree
) -> None:
    """Give a call, or a loop, what it does: the steps up to its end."""
    skipped: list[str] = []
    for step in steps:
        match step:
            case ScopeEnter() if step.path in dissolved and tree.kind(into.path) != "sequential":
                skipped.append(step.path)
            case ScopeEnter():
                call = ModuleCall(step.path, step.module, step.arguments, step.place)
                into.items.append(call)
                _read_items(call, steps, dissolved, tree)
            case ScopeExit() if skipped:
                skipped.pop()
            case ScopeExit():
                assert isinstance(into, ModuleCall)
                into.results = step.results
                return
            case Scan():
                repeated = Repeated(into.path, step)
                into.items.append(repeated)
                _read_items(repeated, iter(step.steps), dissolved, tree)
            case Assignment():
                into.items.append(step)


def _give_writes(root: ModuleCall, placed: LoweredGraph) -> None:
    """Have each buffer written where its new value is made."""
    makers: dict[str, ModuleCall] = {}

    def walk(call: ModuleCall) -> None:
        for inner in calls_in(call.items):
            walk(inner)
        for item in call.items:
            if not isinstance(item, ModuleCall):
                makers.update((value.name, call) for value in made_by(item))

    walk(root)
    for path, expression in placed.written.items():
        read = values_in(expression)
        maker = makers.get(read[0], root) if len(read) == 1 else root
        maker.writes[path] = expression


RETURN = "return"


def annotations_of(call: ModuleCall, placed: LoweredGraph) -> dict[str, str]:
    """What a call is given, by its parameters' names, and what it gives, as ``"return"``: as they are annotated."""
    return {name: _annotation(given, placed) for name, given in {**call.parameters, RETURN: call.results}.items()}


def _annotation(given: Any, placed: LoweredGraph) -> str:
    match given:
        case None | syntax.Const(None):
            return "None"
        case syntax.Use(name) if name in placed.values:
            return "int" if placed.values[name].shape is None else _ARRAY
        case syntax.Expr():
            return _ARRAY
    inside = {_annotation(item, placed) for item in _items(given)}
    if type(given) not in (list, tuple, dict) or len(inside) != 1 or "Any" in inside:
        return "Any"
    what = inside.pop()
    if isinstance(given, dict):
        return f"dict[str, {what}]" if all(isinstance(key, str) for key in given) else "Any"
    return f"list[{what}]" if isinstance(given, list) else f"tuple[{what}, ...]"


_ARRAY = "jax.Array"


def _items(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, dict) else list(given) if isinstance(given, list | tuple) else []


def numbers_given(call: ModuleCall, placed: LoweredGraph) -> dict[str, str]:
    """The parameters of a call that are given whole numbers, as lengths are: their names → how they are annotated.

    Where there are arrays among the numbers, the annotation is ``""``.
    """
    found = {}
    for name, given in call.parameters.items():
        kinds = _kinds(given, placed)
        if "number" in kinds:
            single = "int" if isinstance(given, syntax.Expr) else "Any"
            found[name] = single if kinds == {"number"} else ""
    return found


def _kinds(given: Any, placed: LoweredGraph) -> set[str]:
    match given:
        case syntax.Expr():
            known = (placed.values[name] for name in values_in(given) if name in placed.values)
            return {"number" if value.shape is None else "array" for value in known}
        case dict():
            return _kinds(tuple(given.values()), placed)
        case tuple() | list():
            return set[str]().union(*(_kinds(item, placed) for item in given))
    return set()
