"""The call in a script's source that constructed something, and its arguments by the names of the parameters."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from port.scripts.events import Event


def constructor_call(cls: type, event: Event) -> tuple[ast.Module, ast.Call] | None:
    """The script's source, and the call in it; None where no line, or not one call there, constructs the class.

    Args:
        cls: of what was constructed.
        event: that tells where.
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
    """What a constructor is called with; nothing where a list is spread out among its arguments."""
    names = list(inspect.signature(cls).parameters)
    if any(isinstance(one, ast.Starred) for one in call.args):
        return
    yield from zip(names, call.args, strict=False)
    yield from ((word.arg, word.value) for word in call.keywords if word.arg is not None)
