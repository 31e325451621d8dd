"""The outline of a Python source: its definitions and cell titles."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CELL = "# %%"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class DoesNotParse(ValueError):
    """Raised for a source that is not valid Python of this version; says where."""


@dataclass(frozen=True)
class OutlineItem:
    """A definition or a cell title. Lines are counted from 0, and ``stop`` is the first line after it."""

    name: str
    start: int
    """its first line: a decorator's, or that of a comment right above"""
    line: int
    """the line with `def`, `class` or the title"""
    body: int
    """the line where its signature ends"""
    stop: int
    parts: tuple[OutlineItem, ...] = ()
    """a class's methods, and any titles inside"""


def outline(lines: Sequence[str]) -> tuple[OutlineItem, ...]:
    """List the functions and classes of a source, with methods inside them, and cell titles, in order.

    Raises:
        DoesNotParse: with Python's own reason.
    """
    text = "\n".join(lines) + "\n"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # somebody else's "\d"
            tree = ast.parse(text)
        titles = [OutlineItem(lines[n].rstrip(), n, n, n + 1, n + 1) for n in _titles(text)]
    except SyntaxError as error:
        place = "" if error.lineno is None else f", line {error.lineno}"
        raise DoesNotParse(f"{error.msg}{place}") from None
    except (tokenize.TokenError, ValueError) as error:  # ValueError: a null byte, before Python 3.11.4
        raise DoesNotParse(str(error.args[0])) from None
    except (RecursionError, MemoryError):  # how Python's parser fails on it
        raise DoesNotParse("nested too deeply") from None
    return _placed(_definitions(tree, lines, in_class=False), titles)


def flat(parts: Sequence[OutlineItem], inside: str = "") -> Iterator[tuple[str, OutlineItem]]:
    """All parts with their qualified names, including nested ones."""
    for part in parts:
        yield inside + part.name, part
        yield from flat(part.parts, f"{inside}{part.name}.")


def _definitions(node: ast.AST, lines: Sequence[str], *, in_class: bool) -> list[OutlineItem]:
    parts: list[OutlineItem] = []
    for found in _nearest(node):
        # JAX's modules are called through __call__, torch's through forward.
        name = "__call__" if in_class and found.name == "forward" else found.name
        line = found.lineno - 1
        start = min([line, *(decorator.lineno - 1 for decorator in found.decorator_list)])
        while start and lines[start - 1].lstrip().startswith("#") and not lines[start - 1].startswith(CELL):
            start -= 1
        if parts:
            start = max(start, parts[-1].stop)
        inside = _definitions(found, lines, in_class=True) if isinstance(found, ast.ClassDef) else []
        body = min([found.body[0].lineno - 1, *(part.start for part in inside)])
        stop = found.end_lineno or found.lineno
        parts.append(OutlineItem(name, start, line, max(body, line + 1), stop, tuple(inside)))
    return parts


def _nearest(node: ast.AST) -> Iterator[Definition]:
    """The definitions below a node, through `if`, `try` and `with`, but not nested in each other."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _nearest(child)


def _titles(text: str) -> list[int]:
    """The lines that are cell titles; not those inside strings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        token.start[0] - 1
        for token in tokens
        if token.type == tokenize.COMMENT and token.start[1] == 0 and token.string.startswith(CELL)
    ]


def _placed(parts: list[OutlineItem], titles: list[OutlineItem]) -> tuple[OutlineItem, ...]:
    """Order the parts and the titles; a title inside a part becomes a part of it."""
    placed = []
    for part in parts:
        inside = [title for title in titles if part.body <= title.line < part.stop]
        placed.append(replace(part, parts=_placed(list(part.parts), inside)) if inside else part)
    taken = [range(part.start, part.stop) for part in parts]
    outside = [title for title in titles if not any(title.line in lines for lines in taken)]
    return tuple(sorted([*placed, *outside], key=lambda part: part.start))
