"""Merge branches of a constructor, each reached by some construction, into one constructor that has them all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from port.translation.ir import syntax

NOT_REACHED = "{name}: the model that this was translated from does not come here"
"""The message raised in a branch that no construction reaches."""
_PART = re.compile(r"_part(\d+)_")
Span = tuple[int, int]
"""The first line of a block, from 0, and the line after its last."""


def with_branches_of(one: syntax.FunctionDef, other: syntax.FunctionDef) -> syntax.FunctionDef:
    """Fill the branches that one version of a function does not reach from another version."""
    if len(one.body) != len(other.body):
        return one
    return replace(one, body=tuple(map(_filled, one.body, other.body)))


def _filled(one: syntax.Stmt, other: syntax.Stmt) -> syntax.Stmt:
    if not isinstance(one, syntax.Lines) or not isinstance(other, syntax.Lines):
        return one
    count = len(one.parts)
    lines = one.text.splitlines()
    theirs = _PART.sub(lambda part: f"_part{int(part[1]) + count}_", other.text).splitlines()
    found = list(_gaps(ast.parse(one.text).body, ast.parse(other.text).body))
    for (first, last), (begin, end) in reversed(found):  # from below, so that the lines above keep their numbers
        while begin and theirs[begin - 1].lstrip().startswith("#"):
            begin -= 1  # comments at the top of the block
        lines[first:last] = theirs[begin:end]
    return syntax.Lines("\n".join(lines), (*one.parts, *other.parts)) if found else one


def _gaps(one: list[ast.stmt], other: list[ast.stmt]) -> Iterator[tuple[Span, Span]]:
    """The blocks that only the other version reaches, as line spans in both texts."""
    if _is_not_reached(one):
        if not _is_not_reached(other):
            yield _span(one), _span(other)
        return
    if len(one) != len(other):
        return  # they differ in more than that
    for mine, theirs in zip(one, other, strict=True):
        for name in ("body", "orelse"):
            inside, there = getattr(mine, name, []), getattr(theirs, name, [])
            if inside and there and type(mine) is type(theirs):
                yield from _gaps(inside, there)


def _is_not_reached(block: list[ast.stmt]) -> bool:
    match block:
        case [ast.Raise(exc=ast.Call(func=ast.Name(id="NotImplementedError"), args=[ast.Constant(value=str(text))]))]:
            return text.endswith(NOT_REACHED.partition("}")[2])
    return False


def _span(block: list[ast.stmt]) -> Span:
    return block[0].lineno - 1, block[-1].end_lineno or block[-1].lineno
