"""Rename identifiers in source text; comments and layout stay."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.errors import UsageError


@dataclass(frozen=True)
class Edit:
    """A stretch of a text, from line and byte to line and byte, and what stands there instead; lines count from 1."""

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
    """What is to be changed for a statement to have other names.

    Args:
        text: of the module.
        statement: as it was parsed from the text; it is changed, too.
        names: expressions in it, names or dotted ones → the names in their place.
        binds: names that it defines → their new ones.
        removed: statements in it that are left out.

    Raises:
        UsageError: a name that it defines in a way that cannot be told from the text.
    """
    changed = {node: name for node, name in names.items() if ast.unparse(node) != name}
    edits = [edit for node in removed for edit in _removal(statement, node)]
    # What is inside an f-string has its true place only in the newest Pythons: such a string is written anew.
    strings = _outermost_strings(statement)
    inside = {node for string in strings for node in ast.walk(string)}
    for string in strings:
        if any(node in changed for node in ast.walk(string)):
            edits.append(_edit(string, ast.unparse(_Replacing(changed).visit(string))))
    edits += [_edit(node, name) for node, name in changed.items() if node not in inside]
    stored = {node.id for node in names if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for old, new in binds.items():
        if old != new and old not in stored:
            edits.append(_of_head(text.splitlines()[statement.lineno - 1], statement, old, new))
    return edits


def edited(text: str, edits: Sequence[Edit], lines: tuple[int, int]) -> str:
    """Some lines of a text, first and last, with those edits that are in them."""
    kept = [line.encode() for line in text.splitlines(keepends=True)]
    for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
        (first, begin), (last, end) = edit.begin, edit.end
        if lines[0] <= first <= lines[1]:
            whole = kept[first - 1][:begin] + edit.text.encode() + kept[last - 1][end:]
            kept[first - 1 : last] = [whole, *([b""] * (last - first))]
    return b"".join(kept[lines[0] - 1 : lines[1]]).decode().rstrip("\n")


def _of_head(line: str, statement: ast.stmt, old: str, new: str) -> Edit:
    """``def old(`` as ``def new(``."""
    found = re.match(rf"\s*(?:async\s+def|def|class)\s+(?={old}\b)", line)
    if found is None or getattr(statement, "name", None) != old:
        raise UsageError(f"`{line.strip()}` defines {old}, which has to have another name and cannot be given one")
    begin = len(found[0].encode())
    return Edit((statement.lineno, begin), (statement.lineno, begin + len(old.encode())), new)


def _edit(node: ast.expr, text: str) -> Edit:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _removal(inside: ast.stmt, statement: ast.stmt) -> list[Edit]:
    """A statement taken out; ``pass`` where nothing else stands in its block."""
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
