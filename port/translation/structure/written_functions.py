"""Write the original's functions, each once for all its calls in both modes."""

from __future__ import annotations

import builtins
import inspect
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, filled, literal, names_in
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.origin_numbers import plain
from port.translation.structure.anti_unify import Differ, Holes, numbered
from port.translation.structure.body import write_function_body
from port.translation.structure.call_annotations import RETURN, annotations_of
from port.translation.structure.call_tree import FunctionCall, call_tree, function_calls_in
from port.translation.structure.escapes import escaping
from port.translation.structure.function_merge import merged_calls
from port.translation.structure.function_scope import at, each_leaf
from port.translation.structure.name_hints import is_reserved, own_name
from port.translation.structure.unreachable import Unreachable
from port.translation.structure.written_function import FunctionParameter, Functions, WrittenFunction

_TAKEN = (
    *("load", "load_weights", "saved_arguments", "filled_later", "unknown_start"),
    *("Path", "Any", "dataclass", "frozen", "step"),
)
"""Names that a source may use for something else."""


class Unwritable(Exception):
    """Functions that cannot be written as functions; they are inlined where they are called."""

    def __init__(self, functions: Collection[FunctionType]) -> None:
        super().__init__(", ".join(function.__qualname__ for function in functions))
        self.functions = frozenset(functions)


def written_functions(runs: Collection[LoweredGraph], tree: ModuleTree) -> dict[FunctionType, WrittenFunction]:
    """Write the functions that the graphs call, callees first.

    Args:
        runs: the graphs of all example calls, in both modes.
        tree: the module tree.

    Raises:
        Unwritable: some cannot be written as functions.
    """
    calls: dict[FunctionType, list[tuple[FunctionCall, LoweredGraph]]] = {}
    failed: set[FunctionType] = set()
    for lowered in runs:
        failed |= escaping(lowered)
        for call in function_calls_in([call_tree(lowered, set(), tree)]):
            calls.setdefault(call.function, []).append((call, lowered))
    inside = {
        function: {inner.function for call, _ in several for inner in function_calls_in(call.items)}
        for function, several in calls.items()
    }
    names = _names(calls, tree)
    written: dict[FunctionType, WrittenFunction] = {}
    while len(written) + len(failed) < len(calls):
        ready = [each for each in calls if each not in failed and each not in written and inside[each] <= {*written}]
        if not ready:
            break
        for function in ready:
            try:
                written[function] = _written(names[function], calls[function], tree, written, names.values())
            except (Unreachable, NoPair, NoSource, Differ):
                failed.add(function)
    if not failed:
        failed = calls.keys() - written.keys()  # recursive functions
    if failed:
        raise Unwritable(failed)
    return written


def _names(functions: Iterable[FunctionType], tree: ModuleTree) -> dict[FunctionType, str]:
    """The name of each function: the original's, numbered if that is taken."""
    taken = {*_TAKEN, *dir(builtins), *(type(module).__name__ for module in tree.modules.values())}
    found: dict[FunctionType, str] = {}
    for function in functions:
        name, number = function.__name__, 2
        while name in taken or is_reserved(name):
            name, number = f"{function.__name__}{number}", number + 1
        taken.add(name)
        found[function] = name
    return found


def _written(
    name: str,
    calls: Sequence[tuple[FunctionCall, LoweredGraph]],
    tree: ModuleTree,
    written: Functions,
    names: Collection[str],
) -> WrittenFunction:
    """Write one function for all its calls.

    Raises:
        Unreachable, NoPair: a call needs a value that is not passed to it.
        Differ: the calls do different things.
    """
    bodies = [write_function_body(call, lowered, tree, written, names) for call, lowered in calls]
    holes, own = Holes(), _own_names(calls[0][0])
    several = [call for call, _ in calls]
    one = merged_calls(calls[0][0].function, bodies, _are_numbers(several, own), holes)
    explained = [
        _explained(
            {call: value for call, value in enumerate(hole.values) if call not in one.lacking.get(number, ())},
            several,
            own,
        )
        for number, hole in enumerate(holes.found)
    ]
    filling = {numbered(number).name: made for number, made in enumerate(explained)}
    *statements, last = (filled(statement, filling) for statement in one.statements)
    used = {name for body in bodies for name in body.parameters}
    used |= {name for name, called in own.items() if called in names_in(*explained) or called in one.reads}
    assert isinstance(last, syntax.Return)
    parameters = _parameters(several, {name: called for name, called in own.items() if name in used})
    annotations = _annotations(calls)
    return WrittenFunction(name, calls[0][0].function, parameters, tuple(statements), last.value, annotations)


def _are_numbers(calls: Sequence[FunctionCall], own: Mapping[str, str]) -> dict[str, bool]:
    """Whether every call passes plain numbers only: the parameter's name in the source → answer."""
    return {
        called: all(
            plain(leaf) is None or isinstance(plain(leaf), bool | int | float | str)
            for call in calls
            for _, leaf in each_leaf(call.parameters[name.lstrip("*")])
        )
        for name, called in own.items()
    }


def _own_names(call: FunctionCall) -> dict[str, str]:
    """The parameters of a function, with their stars → their names in the source."""
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    known = inspect.signature(call.function).parameters.values()
    return {f"{stars.get(each.kind, '')}{each.name}": own_name(each.name) for each in known}


def _explained(values: Mapping[int, Any], calls: Sequence[FunctionCall], own: Mapping[str, str]) -> syntax.Expr:
    """Find the parameter that holds what differs between the calls.

    Args:
        values: call number → value, for the calls that have the statement.
        calls: all calls.
        own: the parameters → their names in the source.

    Raises:
        Differ: there is no such parameter.
    """
    for name, called in own.items():
        if name.startswith("*"):
            continue
        leaves = [dict(each_leaf(call.parameters[name])) for call in calls]
        for path in leaves[0]:
            if all(_is_equal(leaves[call].get(path), value) for call, value in values.items()):
                return at(syntax.Name(called), path)
    raise Differ


def _is_equal(passed: Any, value: Any) -> bool:
    return type(plain(passed)) is type(value) and bool(plain(passed) == value)


def _parameters(calls: Sequence[FunctionCall], own: Mapping[str, str]) -> tuple[FunctionParameter, ...]:
    """The parameters that are needed, with defaults where a call omits the argument, and for those that follow."""
    known = inspect.signature(calls[0].function).parameters
    found: list[FunctionParameter] = []
    has_default = False
    for name, called in own.items():
        parameter = known[name.lstrip("*")]
        by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        is_left = any(parameter.name not in (*call.enter.positional, *call.enter.named) for call in calls)
        follows = has_default and not by_name
        default = None
        if parameter.default is not inspect.Parameter.empty and (is_left or follows):
            default = literal(parameter.default)
            has_default |= not by_name
        found.append(FunctionParameter(name, called, by_name, default))
    return tuple(found)


# %% Annotations


def _annotations(calls: Sequence[tuple[FunctionCall, LoweredGraph]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for call, lowered in calls:
        for name, annotation in annotations_of(call, lowered).items():
            number = None if name == RETURN else _kind(call.parameters[name])
            found[name].add(number or annotation)
    return {name: frozenset(kinds) for name, kinds in found.items()}


def _kind(value: Any) -> str | None:
    """The annotation of a number, a string, or a tuple of such; None for everything else."""
    match plain(value):
        case tuple() | list() as items if items:
            inside = {_kind(item) for item in items}
            kind = inside.pop() if len(inside) == 1 else None
            return kind and f"{type(items).__name__}[{kind}{', ...' if isinstance(items, tuple) else ''}]"
        case bool() | int() | float() | str() as constant:
            return type(constant).__name__
    return None
