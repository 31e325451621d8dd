"""Rename identifiers in source text; comments and formatting stay."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.errors import UsageError


@dataclass(frozen=True)
class Edit:
    """A replacement of text between two positions, each a line (from 1) and a byte offset."""

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


def in_text(
    text: str,
    statement: ast.stmt,
    names: Mapping[ast.expr, str],
    binds: Mapping[str, str],
    removed: Sequence[ast.stmt] = (),
) -> list[Edit]:
    """Return the edits that rename identifiers in a statement.

    Args:
        text: the module's text.
        statement: the statement, parsed from the text; its f-strings are modified.
        names: names and dotted names in it → their new names.
        binds: names that it defines → their new names.
        removed: statements in it to remove.

    Raises:
        UsageError: a definition's name cannot be found in the text.
    """
    changed = {node: name for node, name in names.items() if ast.unparse(node) != name}
    edits = [edit for node in removed for edit in _removal(statement, node)]
    # Before Python 3.12, nodes inside an f-string have no reliable positions: such a string is rewritten as a whole.
    strings = _outermost_strings(statement)
    inside = {node for string in strings for node in ast.walk(string)}
    for string in strings:
        if any(node in changed for node in ast.walk(string)):
            edits.append(_edit(string, ast.unparse(_Replacing(changed).visit(string))))
    edits += [_edit(node, name) for node, name in changed.items() if node not in inside]
    stored = {node.id for node in names if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for old, new in binds.items():
        if old != new and old not in stored:
            edits.append(_renamed_head(text.splitlines()[statement.lineno - 1], statement, old, new))
    return edits


def edited(text: str, edits: Sequence[Edit], lines: tuple[int, int]) -> str:
    """Apply the edits within a range of lines, and return these lines."""
    kept = [line.encode() for line in text.splitlines(keepends=True)]
    for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
        (first, begin), (last, end) = edit.begin, edit.end
        if lines[0] <= first <= lines[1]:
            whole = kept[first - 1][:begin] + edit.text.encode() + kept[last - 1][end:]
            kept[first - 1 : last] = [whole, *([b""] * (last - first))]
    return b"".join(kept[lines[0] - 1 : lines[1]]).decode().rstrip("\n")


def _renamed_head(line: str, statement: ast.stmt, old: str, new: str) -> Edit:
    """Return the edit from ``def old(`` to ``def new(``."""
    found = re.match(rf"\s*(?:async\s+def|def|class)\s+(?={old}\b)", line)
    if found is None or getattr(statement, "name", None) != old:
        raise UsageError(f"`{line.strip()}` defines {old}, which needs another name and cannot be renamed")
    begin = len(found[0].encode())
    return Edit((statement.lineno, begin), (statement.lineno, begin + len(old.encode())), new)


def _edit(node: ast.expr, text: str) -> Edit:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _removal(inside: ast.stmt, statement: ast.stmt) -> list[Edit]:
    """Return the edit that removes a statement; ``pass`` replaces the only statement of a block."""
    for node in ast.walk(inside):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and statement in block:
                assert statement.end_lineno is not None and statement.end_col_offset is not None
                begin, end = (statement.lineno, statement.col_offset), (statement.end_lineno, statement.end_col_offset)
                return [Edit(begin, end, "pass" if len(block) == 1 else "")]
    return []


def _outermost_strings(node: ast.AST) -> list[ast.JoinedStr]:
    if isinstance(node, ast.JoinedStr):
        return [node]
    return [string for child in ast.iter_child_nodes(node) for string in _outermost_strings(child)]


class _Replacing(ast.NodeTransformer):
    def __init__(self, names: Mapping[ast.expr, str]) -> None:
        self.names = names

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and node in self.names:
            return ast.Name(self.names[node])
        return self.generic_visit(node)
