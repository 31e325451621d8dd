"""Write a generator of the batches that a script makes in its loop, without a DataLoader.

It copies the loop's lines that lead to the inputs of a step. Running it shows whether these are enough: its first
batches must equal the script's.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.loop import bodies
from port.scripts.writing.original_source import source_text
from port.scripts.writing.own_calls import Function
from port.scripts.writing.taken_statements import (
    called_name,
    calls_in,
    holds,
    is_guard,
    names_loaded,
    names_set,
    statements_for,
    targets_of,
)

TRAINING, EVALUATION = "training", "evaluation"
"""Names of the generators; an evaluation may be within a condition, which is found separately."""


@dataclass
class OwnBatches:
    """A pass over batches that a script makes itself.

    Attributes:
        text: the generator's source.
        call: its call, in the loop over the epochs: ``training(train_data)``.
        needed: names that the generator needs where it is defined, and names that its call needs.
        nodes: the statements in it.
        begun: names that are reset at each pass, before its first batch.
    """

    text: str
    call: str
    needed: set[str]
    nodes: list[ast.AST] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)


def flattened_script(tree: ast.Module) -> ast.Module:
    """A script's source without its main guard, and without a ``try`` that only catches Ctrl + C."""
    tree.body = list(_flattened(tree.body))
    for one in tree.body:
        if isinstance(one, Function):
            one.body = list(_flattened(one.body))
    return tree


def _flattened(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for one in statements:
        is_around = isinstance(one, ast.Try) and all(map(_is_interrupt, one.handlers)) and not one.orelse
        if is_around or is_guard(one):
            yield from _flattened(getattr(one, "body", ()))
        else:
            yield one


def _is_interrupt(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.type, ast.Name) and handler.type.id == "KeyboardInterrupt"


def loop_at(tree: ast.Module, where: Event) -> tuple[ast.For, Function | None]:
    """The innermost ``for`` around a line, and the function that contains it.

    Raises:
        UsageError: there is none.
    """
    for function, body in bodies(tree):
        is_there = function is None or holds(function, where["line"])
        skipped = (Function, ast.ClassDef)
        outer = [one for one in body if is_there and not isinstance(one, skipped)]
        inner = [one for statement in outer for one in ast.walk(statement) if isinstance(one, ast.For)]
        loops = [one for one in inner if holds(one, where["line"])]
        if loops:
            return max(loops, key=lambda one: one.lineno), function
    raise UsageError(f"{place_of(where)} is in no `for` of the script: call train_step with your own arrays")


def own_batches(
    rows: Sequence[str],
    found: tuple[ast.For, Function | None],
    scope: Sequence[ast.stmt],
    epochs: ast.For | None,
    where: Event,
    expressions: Sequence[str],
    name: str,
) -> OwnBatches:
    """The generator of a loop's batches.

    Args:
        rows: the script's lines.
        found: the loop, and the function that contains it; None if that is the scope itself.
        scope: the body with the loop over the epochs.
        epochs: that loop; None if it is the loop over the batches.
        where: the line at which the batch is complete: its loss is computed there.
        expressions: the script's expression for each part of a batch there.
        name: the generator's name, one of the two.

    Raises:
        UsageError: the batches depend on the script's training.
    """
    loop, function = found
    block: Sequence[ast.stmt] = scope
    if function is not None:
        block = function.body
    elif epochs is not None:
        block = epochs.body
    around = _statements_before(block, loop, (ast.With, ast.If) if name == EVALUATION else (ast.With,))
    if around is None:
        raise UsageError(f"line {loop.lineno}: the loop over the batches is within another one: write it by hand")
    around = around if block is not scope else []
    needed = {one for text in expressions for one in names_loaded(ast.parse(text, mode="eval").body)}
    line = where["line"]
    inside = statements_for([one for one in loop.body if one.lineno < line and not holds(one, line)], needed)
    needed = (needed - targets_of(loop.target)) | names_loaded(loop.iter)
    before = statements_for(around, needed)
    parameters, call = [], f"{name}()"
    if function is not None:
        parameters = [one.arg for one in function.args.args if one.arg in needed]
        values, used = _arguments(scope, function, parameters)
        call = f"{name}({', '.join(values)})"
        needed = (needed - set(parameters)) | used
    if epochs is not None and (counted := needed & targets_of(epochs.target)):
        said = ", ".join(sorted(counted))
        raise UsageError(f"line {loop.lineno}: its batches depend on {said}: write the loop by hand")
    head = f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}:"
    body = [
        *(source_text(one, rows) for one in inside),
        f"yield {', '.join(expressions)}{',' * (len(expressions) == 1)}",
    ]
    lines = [*(source_text(one, rows) for one in before), head, textwrap.indent("\n".join(body), "    ")]
    text = f"def {name}({', '.join(parameters)}):\n{textwrap.indent(chr(10).join(lines), '    ')}"
    nodes: list[ast.AST] = [*before, *inside, loop.iter, *(ast.parse(one, mode="eval").body for one in expressions)]
    begun = {one for statement in around for one in names_set(statement)}
    return OwnBatches(text, call, needed, nodes, begun)


def _statements_before(
    block: Sequence[ast.stmt], loop: ast.For, through: tuple[type[ast.stmt], ...]
) -> list[ast.stmt] | None:
    """The statements before a loop in a block, or in a ``with`` (or ``if``) of it; None if it is in something else."""
    before: list[ast.stmt] = []
    for one in block:
        if one is loop:
            return before
        inner = _statements_before(getattr(one, "body", ()), loop, through) if isinstance(one, through) else None
        if inner is not None:
            return [*before, *inner]
        before.append(one)
    return None


def _arguments(scope: Sequence[ast.stmt], function: Function, parameters: Sequence[str]) -> tuple[list[str], set[str]]:
    """The arguments of a scope's first call of a function for some parameters, and the names in them."""
    names = [one.arg for one in function.args.args]
    for statement in scope:
        if isinstance(statement, Function | ast.ClassDef):
            continue
        for call in calls_in(statement):
            if called_name(call) == function.name:
                by_name = {word.arg: word.value for word in call.keywords}
                by_name |= dict(zip(names, call.args, strict=False))
                values = [by_name[one] for one in parameters if one in by_name]
                if len(values) == len(parameters):
                    return [ast.unparse(one) for one in values], {n for one in values for n in names_loaded(one)}
    if not parameters:
        return [], set()
    raise UsageError(f"line {function.lineno}: no visible call of {function.name}: write the loop by hand")
