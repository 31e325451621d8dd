"""Find in which epochs a script evaluates: the conditions around the evaluation on epochs and options."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from port.scripts.events import Event
from port.scripts.writing.renaming import renamed
from port.scripts.writing.taken_statements import called_name, names_loaded, names_set, runs, targets_of

BUILT_IN = {"len", "min", "max", "int", "bool", "abs"}


def evaluated_when(
    epochs: ast.For,
    training: Event,
    evaluation: Event,
    options: str | None,
    epoch: str,
    fixed: Collection[str] = (),
) -> str | None:
    """The condition as a written trainer has it; empty if there is none, None if it cannot be written.

    A condition that is the same in all epochs (``rank == 0``) is dropped: it held when the evaluation ran. The
    condition cannot be written if the evaluation is within the loop over the batches, in a conditional loop or after a
    jump, or if the condition reads anything but the epoch and the options.

    Args:
        epochs: the loop over the epochs.
        training: a line of the loop over the batches.
        evaluation: the evaluation's line.
        options: the variable that holds the script's options, which a written trainer calls ``args``.
        epoch: the written trainer's name for the epoch.
        fixed: names that keep one value from before the epochs on.
    """
    tests = _tests(epochs.body, training, evaluation)
    counted = targets_of(epochs.target)
    tests = tests and [test for test in tests if not _is_the_same_always(test, fixed)]
    known = {*([options] if options else []), *BUILT_IN}
    if tests is None or any(names_loaded(test) - counted - known for test in tests):
        return None
    if len(counted) > 1 and any(names_loaded(test) & counted for test in tests):
        return None  # which one is the epoch is not known
    names = {**dict.fromkeys(counted, epoch), **({options: "args"} if options else {})}
    said = [renamed(test, names) for test in tests]
    return " and ".join(f"({one})" if len(said) > 1 else one for one in said)


def fixed_names(tree: ast.Module, epochs: ast.For) -> set[str]:
    """Names that a script sets once, before its epochs, and the names of its imports."""
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = [node.id for node in stored]
    imports = [name for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom) for name in names_set(one)]
    return {one.id for one in stored if names.count(one.id) == 1 and one.lineno < epochs.lineno} | set(imports)


def _is_the_same_always(test: ast.expr, fixed: Collection[str]) -> bool:
    """Whether a condition reads only such names and the rank."""
    for node in ast.walk(test):
        match node:
            case ast.Call() if called_name(node) == "get_rank":
                continue
            case ast.Attribute(attr="get_rank"):
                continue
            case ast.Call() | ast.Attribute() | ast.Subscript():
                return False
    return bool(names_loaded(test)) and names_loaded(test) <= set(fixed)


def _tests(block: Sequence[ast.stmt], training: Event, evaluation: Event) -> list[ast.expr] | None:
    """The conditions around the evaluation in a block of an epoch; None if something else also decides."""
    statement = next((one for one in block if runs(one, evaluation)), None)
    if statement is None or runs(statement, training):
        return None  # it is not visible, or is in the loop over the batches
    if any(_jumps(one) for one in block[: block.index(statement)]):
        return None
    match statement:
        case ast.If():
            is_then = any(runs(one, evaluation) for one in statement.body)
            test = statement.test if is_then else ast.UnaryOp(ast.Not(), statement.test)
            inner = _tests(statement.body if is_then else statement.orelse, training, evaluation)
            return None if inner is None else [test, *inner]
        case ast.With():
            return _tests(statement.body, training, evaluation)
        case ast.For():
            is_plain = not any(isinstance(node, ast.If) and runs(node, evaluation) for node in ast.walk(statement))
            return [] if is_plain else None
        case ast.While() | ast.Try() | ast.Match():
            return None
    return []


def _jumps(node: ast.AST, *, inner: bool = False) -> bool:
    """Whether a statement, or one nested in it, may end the enclosing loop's iteration.

    Args:
        node: the statement.
        inner: whether it is in a nested loop.
    """
    match node:
        case ast.Return():
            return True
        case ast.Continue() | ast.Break():
            return not inner
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return False
        case ast.For() | ast.AsyncFor() | ast.While():
            return any(_jumps(one, inner=True) for one in node.body) or any(
                _jumps(one, inner=inner) for one in node.orelse
            )
    return any(_jumps(one, inner=inner) for one in ast.iter_child_nodes(node))
