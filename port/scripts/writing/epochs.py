"""Find a script's loop over epochs: where its data is made, or in a function or method called from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.callers_names import PlaceInFunction, in_callers_names
from port.scripts.writing.own_calls import Function, argument_for, functions_of, is_call_of, option_names
from port.scripts.writing.taken_statements import called_name, calls_in, names_loaded, runs


@dataclass(frozen=True)
class Epochs:
    """The loop over the epochs.

    Attributes:
        loop: the ``for`` statement.
        statement: the statement, in the body where the data is made, that is the loop or calls its function.
        iterated: the iterable, in the names of that body.
    """

    loop: ast.For
    statement: ast.stmt
    iterated: ast.expr


def epochs_of(tree: ast.Module, scope: Sequence[ast.stmt], begun: Event, made: Event) -> Epochs | None:
    """The loop around the pass over the training loader; None if there is none.

    Args:
        tree: the script.
        scope: the body in which the loader is made.
        begun: a line of the loop over the batches.
        made: the line that makes the loader.

    Raises:
        UsageError: it is not a loop over a range, or is not visible.
    """
    direct = next((one for one in scope if runs(one, begun)), None)
    match direct:
        case ast.For() if _is_over_a_range(direct):
            return Epochs(direct, direct, direct.iter)
        case ast.For():
            return None
    for function, owner, named in functions_of(tree):
        place = next((n for n, one in enumerate(function.body) if _is_epochs(one, begun)), None)
        calls = ((one, call) for one in scope for call in _calls_of(named, begun["file"], one))
        statement, call = next(calls, (None, None))
        if place is not None and statement is not None:
            loop = function.body[place]
            assert isinstance(loop, ast.For)
            where = PlaceInFunction(function, owner, function.body[:place], call)
            return Epochs(loop, statement, in_callers_names(loop.iter, where, tree, scope))
    if direct is None:
        raise UsageError(
            f"the loop over the epochs is not where the loader is made ({place_of(made)}): write it around"
        )
    if isinstance(direct, ast.Expr | ast.Assign):
        raise UsageError(
            f"line {direct.lineno}, `{ast.unparse(direct)}`, runs the epochs in a loop outside the script: write the "
            "loop around train_step, for epoch in range(…) and for batch in the loader"
        )
    raise UsageError(
        f"line {direct.lineno} does not loop over the epochs with `for … in range(…)` in the body in which the loader "
        f"is made ({place_of(made)}), or in a function called there: write the loop around train_step"
    )


def passed_arguments(tree: ast.Module, scope: Sequence[ast.stmt], file: str) -> list[ast.stmt]:
    """If a body is a function's: its arguments, as assignments before its first statement.

    Args:
        tree: the script.
        scope: the body.
        file: the script's file.
    """
    function = next((one for one, _, _ in functions_of(tree) if one.body is scope), None)
    calls = [] if function is None else list(_calls_of(function.name, file, tree))
    if function is None or len(calls) != 1:
        return []
    arguments = function.args
    options = option_names(tree)
    found: dict[str, ast.expr] = {}
    for name in [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]:
        value = argument_for(name, calls[0], function, options)
        if value is not None and not (isinstance(value, ast.Name) and value.id == name):
            found[name] = value
    return [_at(function.lineno, one) for one in _one_after_another(found)]


def _one_after_another(values: Mapping[str, ast.expr]) -> Iterator[ast.Assign]:
    """Assignments ordered so that none sets what a later one reads; those that read each other become one."""
    left = dict(values)
    while left:
        read = {name: {other for other in left if other != name and name in names_loaded(left[other])} for name in left}
        name = next((one for one in left if not read[one]), None)
        if name is not None:
            yield ast.Assign([ast.Name(name, ast.Store())], left.pop(name))
            continue
        names: list[ast.expr] = [ast.Name(one, ast.Store()) for one in left]
        yield ast.Assign([ast.Tuple(names, ast.Store())], ast.Tuple(list(left.values()), ast.Load()))
        return


def _at(line: int, statement: ast.Assign) -> ast.Assign:
    """Place a generated statement at a line of the script."""
    statement.lineno = statement.end_lineno = line
    statement.col_offset = statement.end_col_offset = 1  # the file has other source there
    return ast.fix_missing_locations(statement)


def _is_epochs(statement: ast.stmt, begun: Event) -> bool:
    return isinstance(statement, ast.For) and _is_over_a_range(statement) and runs(statement, begun)


def _is_over_a_range(loop: ast.For) -> bool:
    return any(called_name(call) == "range" for call in calls_in(loop.iter))


def _calls_of(function: str, file: str, node: ast.stmt | ast.Module) -> Iterator[ast.Call]:
    """The calls of a function, by its qualified name; bodies of nested definitions are skipped."""
    if not isinstance(node, Function | ast.ClassDef):
        yield from (call for call in calls_in(node) if is_call_of(call, function, file))
