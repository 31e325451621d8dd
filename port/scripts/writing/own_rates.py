"""Write a generator of a learning rate that a script sets by hand between its epochs, from the script's statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observing.statements import statement_text
from port.scripts.wording import place_of
from port.scripts.writing.own_calls import is_call_of
from port.scripts.writing.taken_statements import calls_in, gives_options, names_loaded, names_set, runs, targets_of

SENT = "found_by_evaluation"
"""The generator's name for an evaluation's result, until the script's statement takes it."""


def rate_expression(update: Event) -> ast.expr:
    """The script's expression for the rate in ``p.add_(p.grad, alpha=-lr)``.

    Raises:
        UsageError: it has another form.
    """
    where = update["where"]
    try:
        calls = list(calls_in(ast.parse(statement_text(where["file"], where["line"]))))
    except SyntaxError:
        calls = []
    for word in [word for call in calls for word in call.keywords if word.arg == "alpha"]:
        match word.value:
            case ast.UnaryOp(ast.USub(), operand=value):
                return value
            case value if update["function"].endswith("sub_"):
                return value
    raise UsageError(f"{place_of(where)}: the rate of this update is not visible: compute it before each train_step")


def rates_source(
    scope: Sequence[ast.stmt],
    epochs: ast.For,
    rate: ast.expr,
    training: Event,
    evaluates: Event | None,
    models: set[str],
) -> tuple[str, bool, list[ast.AST], set[str]]:
    """The generator's body; whether it is sent the evaluations' results; its statements of the script, and its needs.

    It yields the rate where the epoch trains, and once more after the last epoch.

    Args:
        scope: the body with the loop over the epochs.
        epochs: that loop.
        rate: the script's expression for the rate.
        training: a line of the loop over the batches.
        evaluates: the line of the evaluation; None if there is none.
        models: names of the script's models.

    Raises:
        UsageError: it depends on other computations of the loop.
    """
    said = ast.unparse(rate)
    needed = set(names_loaded(rate))
    size = 0
    while size != len(needed):  # names set at an epoch's end may be needed at the start of the next one
        size = len(needed)
        inside = _leading_to(epochs.body, needed, evaluates)
    found = [one for one in inside if _finds(one, evaluates)]
    if len(found) > 1 or any(not isinstance(one, ast.Assign) or len(names_set(one)) != 1 for one in found):
        raise UsageError(f"line {epochs.lineno}: the rate depends on several evaluations: compute it by hand")
    begins = next(one.lineno for one in epochs.body if runs(one, training))
    if any(one.lineno <= begins for one in found):
        raise UsageError(
            f"line {epochs.lineno}: an epoch evaluates before it trains, or where it does: compute the rate by hand"
        )
    if any(one.lineno == begins for one in inside):
        raise UsageError(f"line {begins}: the rate depends on what training gives: compute it by hand")
    needed -= {name for one in found for name in names_set(one)} | targets_of(epochs.target)
    before = _leading_to([one for one in scope if one.lineno < epochs.lineno], needed, None)
    if models & needed:
        raise UsageError(f"line {epochs.lineno}: the rate depends on {', '.join(models & needed)}: compute it by hand")
    lines = [ast.unparse(one) for one in before]
    lines.append(f"for {ast.unparse(epochs.target)} in {ast.unparse(epochs.iter)}:")
    body = [ast.unparse(one) for one in inside if one.lineno < begins]
    behind = [one for one in inside if one.lineno > begins]
    if found and behind[0] is found[0]:
        body.append(f"{names_set(behind.pop(0))[0]} = yield {said}")
    else:
        body.append(f"{SENT} = yield {said}" if found else f"yield {said}")
    body += [f"{names_set(one)[0]} = {SENT}" if one in found else ast.unparse(one) for one in behind]
    lines += [f"    {row}" for text in body for row in text.splitlines()]
    own = {name for one in (*before, *inside) for name in names_set(one)} | targets_of(epochs.target)
    nodes: list[ast.stmt | ast.expr] = [*before, *(one for one in inside if one not in found), rate, epochs.iter]
    lacking = {name for one in nodes for name in names_loaded(one)} - own
    return "\n".join([*lines, f"yield {said}"]), bool(found), [*before, *inside], lacking


def _leading_to(statements: Sequence[ast.stmt], needed: set[str], evaluates: Event | None) -> list[ast.stmt]:
    """The statements that set needed names, without their other effects."""
    found: list[ast.stmt] = []
    for statement in reversed(statements):
        if not set(names_set(statement)) & needed or gives_options(statement):
            continue
        kept = _without_the_rest(statement, needed)
        found.append(kept)
        if not _finds(kept, evaluates):
            needed |= names_loaded(kept)
    return found[::-1]


def _without_the_rest(statement: ast.stmt, needed: set[str]) -> ast.stmt:
    if not isinstance(statement, ast.If):
        return statement
    branches = [
        [_without_the_rest(one, needed) for one in part if set(names_set(one)) & needed]
        for part in (statement.body, statement.orelse)
    ]
    return ast.copy_location(ast.If(statement.test, branches[0] or [ast.Pass()], branches[1]), statement)


def _finds(statement: ast.stmt, evaluates: Event | None) -> bool:
    """Whether a statement calls the function in which the evaluation is."""
    return evaluates is not None and any(
        is_call_of(call, evaluates["function"], evaluates["file"]) for call in calls_in(statement)
    )
