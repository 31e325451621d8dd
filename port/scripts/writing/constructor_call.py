"""Find the constructor call of an object in a script's source, and its arguments by parameter name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from port.scripts.events import Event


def constructor_call(cls: type, event: Event) -> tuple[ast.Module, ast.Call] | None:
    """The script's source and the call in it; None if no line, or more than one call there, constructs the class.

    Args:
        cls: the class of the object.
        event: the event that has the line.
    """
    where = (event["constructed"] or {}).get("where")
    if where is None:
        return None
    tree = ast.parse(Path(where["file"]).read_text("utf-8"))
    calls = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
        and one.lineno <= where["line"] <= (one.end_lineno or one.lineno)
        and ast.unparse(one.func).rpartition(".")[2] == cls.__name__
    ]
    return (tree, calls[0]) if len(calls) == 1 else None


def arguments_by_name(cls: type, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """A constructor call's arguments; empty if they include an unpacked list."""
    names = list(inspect.signature(cls).parameters)
    if any(isinstance(one, ast.Starred) for one in call.args):
        return
    yield from zip(names, call.args, strict=False)
    yield from ((word.arg, word.value) for word in call.keywords if word.arg is not None)
