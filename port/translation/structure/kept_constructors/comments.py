"""The comments above the statements of a constructor."""

from __future__ import annotations

import ast
import bisect
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from types import FunctionType

from port.translation.structure.kept_comments import is_worth_keeping

_COMMENTS = "comments"


def take_comments(function: FunctionType, definition: ast.FunctionDef) -> None:
    """Attach to each statement of a function's tree the comments above it that have a line of their own."""
    above = sorted(
        (statement for statement in ast.walk(definition) if isinstance(statement, ast.stmt)),
        key=lambda statement: (statement.lineno, -(statement.end_lineno or 0)),
    )
    lines = [statement.lineno for statement in above]
    for line, comment in _comments(textwrap.dedent(inspect.getsource(function))):
        place = bisect.bisect_right(lines, line)
        if place < len(above) and above[place] is not definition and is_worth_keeping(comment):
            statement = above[place]
            setattr(statement, _COMMENTS, [*getattr(statement, _COMMENTS, []), comment])


def comments_of(statement: ast.stmt) -> list[ast.stmt]:
    """The comments above a statement, as nodes that `ast.unparse` turns back into comment lines."""
    return [ast.Expr(ast.Name(comment, ast.Load())) for comment in getattr(statement, _COMMENTS, [])]


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments on lines of their own, with line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            yield token.start[0], token.string
