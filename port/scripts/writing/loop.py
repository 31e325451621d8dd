"""A script's loop over its epochs, as its source has it: where its data is made, how often it is gone through."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.taken_statements import (
    Taken,
    called_name,
    calls_in,
    is_guard,
    names_loaded,
    names_set,
    taken_statements,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class EpochLoop:
    """What a written trainer takes from a script as it is.

    Attributes:
        file: the script.
        tree: its source.
        loaders: the variables that hold them: ``training``'s, and ``evaluation``'s if there is one.
        taken: the statements that make them.
        epochs: of which each is a pass over training's loader: ``range(1, args.epochs + 1)``.
        epoch: the variable that counts them.
        every: between two lines about the loss: ``args.log_interval``, or a number; None where that is not plain.
        jumps: breaks and continues within an epoch.
        evaluates_at_end: whether the evaluation stands behind the loop over the epochs, and not in it.
    """

    file: Path
    tree: ast.Module
    loaders: dict[str, str]
    taken: Taken
    epochs: ast.expr
    epoch: str
    every: ast.expr | None = None
    jumps: list[ast.stmt] = field(default_factory=list)
    evaluates_at_end: bool = False

    def is_free(self, option: str) -> bool:
        """Whether an option is used in what is taken over alone, so that it may be another in the written script."""
        whole = _uses(self.tree, option)
        kept = [*self.taken.definitions, *self.taken.body, self.epochs, *([self.every] if self.every else [])]
        lines = {id(node) for one in kept for node in _uses(one, option)}
        return all(id(node) in lines for node in whole) and not self.hands_options_on()

    def hands_options_on(self) -> bool:
        """Whether all options go to what is not in this file."""
        own = {one.name for one in ast.walk(self.tree) if isinstance(one, Function | ast.ClassDef)}
        return any(
            called_name(call) not in {*own, "print"}
            for call in calls_in(self.tree)
            for given in [*call.args, *(word.value for word in call.keywords)]
            if isinstance(given, ast.Name) and given.id == self.taken.options
        )


def loop_of(observation: Observation, training: Event, evaluation: Event | None) -> EpochLoop:
    """Read it in the script that was observed.

    Args:
        observation: of it.
        training: the loader that its updates' batches are from.
        evaluation: the one that its evaluation's are from.

    Raises:
        UsageError: it is not plain; with the line, and what to write.
    """
    begun = next((e["where"] for step in observation.steps for e in step if e["event"] == "batch"), None)
    made = (training["constructed"] or {}).get("where") or begun
    if begun is None or made is None:
        raise UsageError("the batches come from no line of the script's own: call train_step with arrays of yours")
    file = Path(begun["file"])
    tree = _without_guard(ast.parse(file.read_text("utf-8")), begun)
    scope, statement = _scope(tree, training, made)
    for call in calls_in(tree):
        if called_name(call) == "set_epoch":
            raise UsageError(f"{file.name}:{call.lineno} tells a sampler the epoch: write the loop around train_step")
    statements = [statement]
    names = {"training": _variable(statement, training["name"])}
    if evaluation is not None and (found := _statement(scope, evaluation)) is not None:
        names["evaluation"] = _variable(found, evaluation["name"])
        statements.append(found)
    loop = _epochs(scope, begun, made)
    epochs = loop.iter if loop is not None else ast.parse("range(1)", mode="eval").body
    target = loop.target.id if loop is not None and isinstance(loop.target, ast.Name) else "epoch"
    before = [one for one in scope if loop is None or one.lineno < loop.lineno]
    taken = taken_statements(tree, scope, before, statements, names_loaded(epochs))
    body = _loop_over_batches(tree, begun["line"])
    inside = ast.walk(body) if body is not None else ()
    jumps: list[ast.stmt] = [one for one in inside if isinstance(one, ast.Break | ast.Continue)]
    evaluated = observation.evaluation[0]["where"] if observation.evaluation else None
    at_end = loop is not None and evaluated is not None and _is_behind(loop, scope, evaluated)
    return EpochLoop(file, tree, names, taken, epochs, target, _every(body), jumps, at_end)


def _without_guard(tree: ast.Module, begun: Event) -> ast.Module:
    """A script's source, with what is under its ``if __name__ == "__main__":`` at the top if the epochs' loop is."""
    for place, one in enumerate(tree.body):
        if isinstance(one, ast.If) and is_guard(one):
            if any(isinstance(inner, ast.For) and _runs(inner, begun) for inner in one.body):
                tree.body[place : place + 1] = one.body
            break
    return tree


def _scope(tree: ast.Module, loader: Event, made: Event) -> tuple[Sequence[ast.stmt], ast.stmt]:
    """The body in which a loader gets its name, and the statement."""
    for scope in _bodies(tree):
        found = _statement(scope, loader)
        if found is not None:
            return scope, found
    raise UsageError(
        f"{place_of(made)}: no statement of the script's top or of a function gives the loader {loader['name']} its "
        "name: name it where the epochs begin, or call train_step with arrays of yours"
    )


def _statement(scope: Sequence[ast.stmt], loader: Event) -> ast.stmt | None:
    """The statement of a body that makes a loader: the line that constructs it, or one that sets its name."""
    made = (loader["constructed"] or {}).get("where") or {}
    assignments = [one for one in scope if isinstance(one, ast.Assign | ast.AnnAssign)]
    for one in assignments:
        if one.lineno <= made.get("line", 0) <= (one.end_lineno or one.lineno) and list(calls_in(one)):
            return one
    named = [one for one in assignments if loader["name"] in names_set(one) and list(calls_in(one))]
    return named[-1] if named else None


def _variable(statement: ast.stmt, name: str) -> str:
    names = names_set(statement)
    return name if name in names or not names else names[0]


def _bodies(tree: ast.Module) -> Iterator[Sequence[ast.stmt]]:
    yield tree.body
    yield from (one.body for one in tree.body if isinstance(one, Function))


def _epochs(scope: Sequence[ast.stmt], begun: Event, made: Event) -> ast.For | None:
    """The loop around the pass over training's loader; None where there is none.

    Raises:
        UsageError: it is no loop over a range.
    """
    for statement in scope:
        if not _runs(statement, begun):
            continue
        if isinstance(statement, ast.For) and any(called_name(call) == "range" for call in calls_in(statement.iter)):
            return statement
        if isinstance(statement, ast.While) or not isinstance(statement, ast.For):
            raise UsageError(
                f"line {statement.lineno} goes through the epochs otherwise than by `for … in range(…)` of the body "
                f"in which the loader is made ({place_of(made)}): write the loop around train_step"
            )
        return None
    raise UsageError(f"the loop over the epochs is not where the loader is made ({place_of(made)}): write it around")


def _runs(statement: ast.stmt, where: Event) -> bool:
    """Whether a statement holds a line, or calls the function in which it stands."""
    if isinstance(statement, Function | ast.ClassDef):
        return False
    inside = where["function"].rpartition(".")[2]
    holds_it = statement.lineno <= where["line"] <= (statement.end_lineno or statement.lineno)
    return holds_it or any(called_name(call) == inside for call in calls_in(statement))


def _is_behind(loop: ast.For, scope: Sequence[ast.stmt], where: Event) -> bool:
    """Whether a line is run behind a loop alone."""
    return not _runs(loop, where) and any(_runs(one, where) for one in scope if one.lineno > loop.lineno)


def _loop_over_batches(tree: ast.Module, line: int) -> ast.For | None:
    """The innermost loop that a line begins or is in."""
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.For) and one.lineno <= line <= (one.end_lineno or 0)]
    return max(loops, key=lambda one: one.lineno) if loops else None


def _every(body: ast.For | None) -> ast.expr | None:
    """What is behind the per cent sign of ``if number % args.log_interval == 0: print(…)``."""
    for one in ast.walk(body) if body is not None else ():
        if isinstance(one, ast.If) and any(called_name(call) == "print" for call in calls_in(one)):
            for test in ast.walk(one.test):
                match test:
                    case ast.BinOp(op=ast.Mod(), right=ast.Attribute(ast.Name()) | ast.Constant() as right):
                        return right
    return None


def _uses(node: ast.AST, option: str) -> list[ast.AST]:
    return [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and one.attr == option and isinstance(one.ctx, ast.Load)
    ]
