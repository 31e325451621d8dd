"""The run as a tree of calls: which module called which, and what each did itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from port.translation.code import VALUE, values_in
from port.translation.graph import Enter, Leave, Place, each_value
from port.translation.placed import Assignment, Placed
from port.translation.tree import ModuleTree


@dataclass(eq=False)
class Call:
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
    place: Place | None
    results: Any = None
    items: list[Assignment | Call] = field(default_factory=list)
    writes: dict[str, ast.expr] = field(default_factory=dict)


def call_tree(placed: Placed, dissolved: set[str], tree: ModuleTree) -> Call:
    """The root's call, and in it all others.

    Args:
        placed: the run.
        dissolved: paths of modules whose calls are written out where they are called, but for those in a Sequential.
        tree: of the modules.
    """
    steps = list(placed.steps)
    first = next(number for number, step in enumerate(steps) if isinstance(step, Enter))
    open_calls: list[Call] = []
    skipped: list[str] = []
    before = [step for step in steps[:first] if isinstance(step, Assignment)]
    for step in steps[first:]:
        match step:
            case Enter() if step.path in dissolved and tree.kind(open_calls[-1].path) != "sequential":
                skipped.append(step.path)
            case Enter():
                call = Call(step.path, step.module, step.arguments, step.place)
                if open_calls:
                    open_calls[-1].items.append(call)
                else:
                    call.items += before
                open_calls.append(call)
            case Leave() if skipped and skipped[-1] == step.path and open_calls[-1].path != step.path:
                skipped.pop()
            case Leave():
                done = open_calls.pop()
                done.results = step.results
                if not open_calls:
                    _give_writes(done, placed)
                    return done
            case Assignment():
                open_calls[-1].items.append(step)
    raise AssertionError("the root's call does not end")


def _give_writes(root: Call, placed: Placed) -> None:
    """Have each buffer written where its new value is made."""
    makers: dict[str, Call] = {}

    def walk(call: Call) -> None:
        for item in call.items:
            if isinstance(item, Call):
                walk(item)
            else:
                makers.update((value.name, call) for value in each_value(item.results))

    walk(root)
    for path, expression in placed.written.items():
        read = values_in(expression)
        maker = makers.get(read[0], root) if len(read) == 1 else root
        maker.writes[path] = expression


def numbers_given(call: Call, placed: Placed) -> dict[str, str]:
    """The parameters of a call that are given whole numbers, as lengths are: their names → how they are annotated.

    Where there are arrays among the numbers, the annotation is ``""``.
    """
    found = {}
    for name, given in call.parameters.items():
        kinds = _kinds(given, placed)
        if "number" in kinds:
            single = "int" if isinstance(given, ast.expr) else "Any"
            found[name] = single if kinds == {"number"} else ""
    return found


def _kinds(given: Any, placed: Placed) -> set[str]:
    match given:
        case ast.Name(id=name) if name.startswith(VALUE) and name[1:] in placed.values:
            return {"number" if placed.values[name[1:]].shape is None else "array"}
        case ast.expr():
            return set[str]().union(*(_kinds(ast.Name(f"{VALUE}{name}"), placed) for name in values_in(given)))
        case dict():
            return _kinds(tuple(given.values()), placed)
        case tuple() | list():
            return set[str]().union(*(_kinds(item, placed) for item in given))
    return set()
