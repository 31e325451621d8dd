"""Copy a script's evaluation: its loop, its sums and what it prints, around numbers that JAX computes.

Torch computations in the evaluating function are removed: `measure` computes each number that leaves torch
(``.item()``) for a batch. Statements that are then unused are dropped, and the rest stays unchanged.
"""

from __future__ import annotations

import ast
import builtins
import copy
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.evaluated_numbers import TakenNumber
from port.scripts.writing.evaluation_lines import (
    arguments_of,
    batch_of,
    loaded,
    needed_before,
    needed_inside,
    number_names,
    read_behind,
    set_first,
    switches,
    targets,
    with_numbers,
    without_guards,
)
from port.scripts.writing.loop import loop_over_batches
from port.scripts.writing.own_calls import Function, is_call_of
from port.scripts.writing.saved_in_evaluation import without_saves
from port.scripts.writing.shared_function import calls_with_loader, specialized
from port.scripts.writing.sums_on_device import sums_of, with_sums
from port.scripts.writing.taken_statements import called_name, calls_in, names_set

_Definition = ast.FunctionDef | ast.AsyncFunctionDef
OURS = ("measure", "numbers")
"""Names in the written function that do not come from the script."""


@dataclass(frozen=True)
class OwnEvaluation:
    """A script's evaluation, as a function of ``measure`` and of the loader.

    Attributes:
        loader: the script's name for the loader.
        more: the function's other arguments, each with train.py's expression for it: "epoch" or "args".
        statements: its body.
        imports: the script's imports and plain constants that it needs.
        names: the names of a batch's numbers, as in a record.
        lines: the script's lines that are copied.
        shown: the caller's name for the result; None if it returns nothing.
        judged: which of its numbers is a loss; None if all are counts, as in an accuracy.
        where: the script's line.
    """

    loader: str
    more: tuple[tuple[str, str], ...]
    statements: tuple[ast.stmt, ...]
    imports: tuple[ast.stmt, ...]
    names: tuple[str, ...]
    lines: frozenset[int]
    shown: str | None
    where: str
    judged: int | None = None


def own_evaluation(
    tree: ast.Module,
    begun: Event,
    taken: Sequence[TakenNumber],
    loader: str,
    options: str | None,
    epoch: str,
    models: Collection[str] = (),
) -> OwnEvaluation:
    """Read the evaluation from the script's source.

    Args:
        tree: the script.
        begun: a line of the loop over the evaluation's batches.
        taken: the numbers that leave torch for one batch.
        loader: the script's name for the evaluation's loader at the start of its epochs.
        options: the variable that holds the script's options, if any.
        epoch: the variable that counts its epochs.
        models: its models and losses.

    Raises:
        UsageError: it is too complex; the message names the line.
    """
    loop = loop_over_batches(tree, begun["line"])
    if loop is None:
        raise UsageError(f"{place_of(begun)} is in no loop over the evaluation's batches")
    around: ast.Module | _Definition
    around, call = _function_of(tree, loop, begun, loader)
    if call is not None and not isinstance(around, ast.Module):
        around = specialized(around, arguments_of(around, call))
        (loop,) = [one for one in ast.walk(around) if isinstance(one, ast.For) and one.lineno == loop.lineno]
    block = _block_of(around.body, loop)
    if block is None:
        raise UsageError(f"{place_of(begun)}: the loop over the evaluation's batches is not a statement of a block")
    place = next(number for number, one in enumerate(block) if one is loop)
    batch, loader = batch_of(loop, begun)
    known = {epoch: "epoch", **({options: "args"} if options else {})}
    sums = sums_of(loop, taken)
    behind = without_saves(block[place + 1 :])
    behind = with_sums([one for one in behind if not switches(one)], sums)
    behind = read_behind(behind) if call is not None else behind
    inside = needed_inside(with_numbers(without_guards(loop.body), taken, begun), behind, models)
    names = number_names(inside, len(taken))
    loop = copy.deepcopy(loop)
    loop.body = [*ast.parse(f"numbers = measure({ast.unparse(batch)})").body, *inside]
    if call is None:
        behind = _of_evaluation(behind, {loader, *known, *targets(loop)}, inside)
    needed = {name for one in (loop, *behind) for name in loaded(one)} - set_first(loop)
    whole = [*needed_before(with_sums(block[:place], sums), needed), loop, *behind]
    own = {name for one in whole for name in [*names_set(one), *targets(one)]} - {"numbers"}
    free = {name for one in whole for name in loaded(one)} - own - set(vars(builtins)) - {loader, *OURS}
    imports = [one for one in tree.body if _gives(one) & free and _is_plain(one)]
    free -= {name for one in imports for name in _gives(one)}
    arguments = arguments_of(around, call) if call is not None else {}
    said = {name: value.id if isinstance(value := arguments.get(name), ast.Name) else name for name in free}
    more = tuple((name, known[said[name]]) for name in sorted(free) if said[name] in known)
    constants = [
        _constant(name, arguments[name]) for name in sorted(free) if isinstance(arguments.get(name), ast.Constant)
    ]
    free -= {name for name, _ in more} | {name for one in constants for name in names_set(one)}
    used = {one.id for one in ast.walk(around) if isinstance(one, ast.Name)}
    if strange := free or used & {*OURS}:
        said_names = ", ".join(sorted(strange))
        raise UsageError(f"{place_of(begun)}: the evaluation reads {said_names}, which only the script has")
    shown = None
    if any(_returns(one) for one in behind):
        shown = _shown(tree, call) if call is not None else ", ".join(names)
    lines = {line for one in whole for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    statements = (*constants, *whole)
    return OwnEvaluation(loader, more, statements, tuple(imports), names, frozenset(lines), shown, place_of(begun))


def _function_of(
    tree: ast.Module, loop: ast.For, begun: Event, loader: str
) -> tuple[ast.Module | _Definition, ast.Call | None]:
    """The body around a loop, and its call if it is a function that takes a loader to evaluate.

    Raises:
        UsageError: it is called for that at several places.
    """
    functions = [one for one in ast.walk(tree) if isinstance(one, Function) and any(n is loop for n in ast.walk(one))]
    if not functions or not any(one is loop for one in without_guards(functions[-1].body)):
        return (functions[-1] if functions else tree), None
    calls = [one for one in calls_in(tree) if is_call_of(one, begun["function"], begun["file"])]
    calls = calls_with_loader(calls, loader)
    if len(calls) != 1:
        raise UsageError(f"{place_of(begun)} evaluates in a function that is called at {len(calls)} places")
    return functions[-1], calls[0]


def _block_of(body: Sequence[ast.stmt], loop: ast.For) -> list[ast.stmt] | None:
    """The block that contains a loop, with guards unwrapped."""
    block = without_guards(body)
    if any(one is loop for one in block):
        return block
    for one in block:
        for inner in (getattr(one, "body", []), getattr(one, "orelse", [])):
            if isinstance(inner, list) and (found := _block_of(inner, loop)) is not None:
                return found
    return None


def _of_evaluation(behind: Sequence[ast.stmt], known: set[str], inside: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements after an evaluation within a larger body that only use its sums.

    If none of them prints the sums, the last one returns them.
    """
    sums = [name for one in inside for name in dict.fromkeys(names_set(one))]
    found: list[ast.stmt] = []
    known = {*known, *sums, *vars(builtins)}
    for one in behind:
        if loaded(one) - known or not loaded(one) & {*sums} or isinstance(one, ast.If | ast.Return):
            break
        found.append(one)
        known |= set(names_set(one))
    if not any(called_name(call) == "print" for one in found for call in calls_in(one)):
        named = ", ".join(dict.fromkeys(sums))
        returned = ast.copy_location(ast.Return(ast.parse(named, mode="eval").body), inside[-1])
        found.append(ast.fix_missing_locations(returned))
    return found


def _gives(statement: ast.stmt) -> set[str]:
    """The names defined by a top-level import or constant."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Assign(value=ast.Constant()):
            return set(names_set(statement))
    return set()


def _is_plain(statement: ast.stmt) -> bool:
    """Whether it needs neither torch nor a file next to the script."""
    roots = []
    if isinstance(statement, ast.Import):
        roots = [one.name.partition(".")[0] for one in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        roots = [(statement.module or "").partition(".")[0]]
    return all(root in sys.stdlib_module_names or root == "numpy" for root in roots)


def _constant(name: str, value: ast.expr) -> ast.stmt:
    return ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], value, lineno=1))


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(one, ast.Return) and one.value is not None for one in ast.walk(statement))


def _shown(tree: ast.Module, call: ast.Call) -> str:
    """The caller's variable for the result; "evaluation" if there is none."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and one.value is call:
            return ast.unparse(one.targets[0]).strip("()")
    return "evaluation"
