"""Write the batches on which a loop over steps evaluates, copied from the script."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.writing.loop import bodies
from port.scripts.writing.loop_slice import LoopSlice, Yielded, names_set_in, slice_of, statement_at
from port.scripts.writing.own_calls import Function, argument_for
from port.scripts.writing.taken_statements import called_name, calls_in, holds, names_loaded, runs


@dataclass(frozen=True)
class HeldOut:
    """A pass over the evaluation's batches.

    Attributes:
        text: the generator's source.
        made_by: the generator's call.
        part: the statements in it.
        needed: names that its call needs.
        statement: the statement of the loop over the steps that the evaluation replaces.
        around: the script's other statements that belong to the evaluation.
    """

    text: str
    made_by: str
    part: LoopSlice
    needed: frozenset[str]
    statement: ast.stmt
    around: tuple[ast.AST, ...]


def held_out_batches(
    tree: ast.Module,
    scope: Sequence[ast.stmt],
    loop: ast.For | ast.While,
    training: Event,
    where: Event,
    expressions: Sequence[str],
    rows: Sequence[str],
    name: str,
) -> HeldOut:
    """Find the evaluation's batches.

    Args:
        tree: the script.
        scope: the body that contains the loop over the steps.
        loop: the loop over the steps.
        training: the line at which training calls the model.
        where: the line at which the evaluation calls it.
        expressions: training's expression for each part of a batch.
        rows: the script's lines.
        name: the generator's name.

    Raises:
        UsageError: they cannot be separated from the rest of the loop.
    """
    statement, beside = _evaluating(scope, loop, where, training["line"])
    function = _function(tree, scope, where)
    block = function.body if function is not None else [*beside, statement]
    theirs = function.body if function is not None else [statement]
    yielded = _there([loop], theirs, expressions)
    part = slice_of([], block, {statement_at(block, where["line"]): Yielded.of(yielded)}, rows)
    if found := sorted(part.needed & names_set_in(loop)):
        raise UsageError(f"line {where['line']} evaluates with {', '.join(found)}, which the loop makes")
    if function is None:
        return HeldOut(part.function(name), name, part, frozenset(), statement, (statement,))
    parameters = [one.arg for one in function.args.args if one.arg in part.needed]
    values = _argument_values(statement, function, parameters)
    used = {one for value in values for one in names_loaded(value)}
    inner = LoopSlice(part.lines, (*part.nodes, *values), part.needed - set(parameters))
    call = f"lambda: {name}({', '.join(map(ast.unparse, values))})" if values else name
    return HeldOut(part.function(name, parameters), call, inner, frozenset(used), statement, (function, statement))


def _evaluating(
    scope: Sequence[ast.stmt], loop: ast.stmt, where: Event, line: int
) -> tuple[ast.stmt, Sequence[ast.stmt]]:
    """The statement that evaluates, in the loop or after it, and the statements before it in its block."""
    block: Sequence[ast.stmt] = [one for one in scope if one.lineno >= loop.lineno]
    while True:
        found = [one for one in block if runs(one, where)]
        if len(found) != 1:
            how = "at several places" if found else "in no line of the loop itself"
            raise UsageError(f"line {loop.lineno}: the script evaluates {how}")
        (one,) = found
        inner = [*getattr(one, "body", ()), *getattr(one, "orelse", ())]
        is_passed = isinstance(one, ast.If) or (isinstance(one, ast.For | ast.While | ast.With) and holds(one, line))
        if not is_passed or not any(runs(other, where) for other in inner):
            return one, [other for other in block if other.lineno < one.lineno]
        body: Sequence[ast.stmt] = getattr(one, "body", ())
        block = body if any(runs(other, where) for other in body) else getattr(one, "orelse", [])


def _function(tree: ast.Module, scope: Sequence[ast.stmt], where: Event) -> Function | None:
    """The function that contains the evaluation, outside the scope."""
    for function, body in bodies(tree):
        if function is not None and body is not scope and holds(function, where["line"]):
            return function
    return None


def _argument_values(statement: ast.stmt, function: Function, parameters: Sequence[str]) -> list[ast.expr]:
    """The arguments for some parameters of the evaluating function, in the statement that calls it."""
    calls = [call for call in calls_in(statement) if called_name(call) == function.name]
    if not parameters:
        return []
    values = [argument_for(one, calls[0], function, ()) for one in parameters] if len(calls) == 1 else [None]
    found = [one for one in values if one is not None]
    if len(found) != len(parameters):
        raise UsageError(f"line {statement.lineno}: the arguments of {function.name} are not visible")
    return found


def _there(ours: Sequence[ast.stmt], theirs: Sequence[ast.stmt], expressions: Sequence[str]) -> list[ast.expr]:
    """The evaluation's expressions that correspond to training's: both pass them to the same functions."""
    same: dict[str, ast.expr] = {}
    others = [one for statement in theirs for one in calls_in(statement)]
    beyond = {id(one) for one in others}
    for call in (one for statement in ours for one in calls_in(statement) if id(one) not in beyond):
        for other in others:
            if ast.unparse(call.func) == ast.unparse(other.func) and len(call.args) == len(other.args):
                for one, another in zip(call.args, other.args, strict=True):
                    same.setdefault(ast.unparse(one), another)
    missing = [one for one in expressions if one not in same]
    if missing:
        raise UsageError(f"its name for {', '.join(missing)} is not visible: call the same functions as training")
    return [same[one] for one in expressions]
