"""Parse a script's source, and find a line's statement: the lines of a multi-line one run in any order."""

from __future__ import annotations

import ast
import linecache
import tokenize
from functools import cache

Loop = ast.For | ast.AsyncFor | ast.While


@cache
def parsed(file: str) -> ast.Module:
    """The cached tree of a file's source; empty if it does not parse. Code that changes a tree parses its own copy."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@cache
def loops_of(file: str) -> tuple[Loop, ...]:
    """All loops of a file, at any depth."""
    return tuple(node for node in ast.walk(parsed(file)) if isinstance(node, Loop))


def statement_line(file: str, line: int) -> int:
    """The first line of the statement."""
    return _statements(file).get(line, (line, line))[0]


def statement_text(file: str, line: int) -> str:
    """The statement on one line, without comments; only the head of a compound statement."""
    begin, end = _statements(file).get(line, (line, line))
    rows = [linecache.getline(file, number) for number in range(begin, end + 1)]
    return " ".join(text for row in _without_comments(rows) if (text := row.strip()))


def added_in(text: str) -> str | None:
    """``x`` of ``total += x``; None for another statement, or one whose text is cut off."""
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.AugAssign(ast.Name(), ast.Add(), value):
            return ast.unparse(value)
    return None


def is_in_loop_of(file: str, line: int, begun: int) -> bool:
    """Whether a line is in the innermost loop that line ``begun`` starts or is in."""
    loops = [one for one in loops_of(file) if one.lineno <= begun <= (one.end_lineno or one.lineno)]
    if not loops:
        return False
    loop = max(loops, key=lambda one: one.lineno)
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


def _without_comments(rows: list[str]) -> list[str]:
    kept = list(rows)
    try:
        for token in tokenize.generate_tokens(iter(rows).__next__):
            if token.type == tokenize.COMMENT:
                number, column = token.start
                kept[number - 1] = rows[number - 1][:column]
    except (tokenize.TokenError, IndentationError, StopIteration):
        pass  # the head of a statement is not a complete program; the tokens so far are enough
    return kept


@cache
def _statements(file: str) -> dict[int, tuple[int, int]]:
    """Line → the first and last line of its statement, or of the statement's head."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            found.update((line, (node.lineno, end)) for line in range(node.lineno, end + 1))
    return found
