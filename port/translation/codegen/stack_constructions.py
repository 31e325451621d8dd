"""Constructors that make one stack of a list of equal layers: ``stacked([Block(64) for _ in range(depth)])``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted

_STACKED = code("port.nn.stacked")


def with_stacks_made(
    attributes: Mapping[str, syntax.Expr], held: Sequence[syntax.Expr]
) -> tuple[dict[str, syntax.Expr], list[syntax.Stmt]]:
    """Constructions of attributes, some of them stacks; and the statements behind them that make stacks of others.

    Args:
        attributes: names → what the constructor makes.
        held: how the lists are read that are stacks.
    """
    made, later = dict(attributes), []
    for each in held:
        match each:
            case syntax.Attribute(syntax.Name("self"), name) if name in made:
                made[name] = syntax.Call(_STACKED, (_items(made[name]),))
            case _:
                later.append(_again(each))
    return made, later


def with_stacks_kept(functions: Sequence[syntax.FunctionDef], held: Sequence[syntax.Expr]) -> list[syntax.FunctionDef]:
    """A constructor in the original's words, and the methods that it calls, that makes stacks.

    Where the list is made and nothing else is done to it, the stack is made in its place; otherwise at the end.
    """
    constructor, *others = functions
    for each in held:
        text = syntax.source(each)
        mentions = [count for function in functions for count in [_mentions(function, text)] if count]
        made = _in_place(constructor, text) if mentions == [1] else None
        constructor = made or replace(constructor, body=(*constructor.body, _again(each)))
    return [constructor, *others]


def _again(held: syntax.Expr) -> syntax.Stmt:
    return syntax.Assign(held, syntax.Call(_STACKED, (held,)))


def _items(construction: syntax.Expr) -> syntax.Expr:
    """What a list or a Sequential is made of; what else there is, as it is."""
    match construction:
        case syntax.Call(callee, (items,), ()) if dotted(callee).endswith("nnx.List"):
            return items
        case syntax.Call(callee, (syntax.Starred(items),), ()) if dotted(callee).endswith("nnx.Sequential"):
            return items
        case syntax.Call(callee, items, ()) if dotted(callee).endswith("nnx.Sequential"):
            return syntax.List(items)
    return construction


def _mentions(function: syntax.FunctionDef, held: str) -> int:
    pattern = re.compile(rf"(?<![\w.]){re.escape(held)}(?!\w)")
    texts = [statement.text for statement in function.body if isinstance(statement, syntax.Lines)]
    return sum(len(pattern.findall(text)) for text in texts)


def _in_place(function: syntax.FunctionDef, held: str) -> syntax.FunctionDef | None:
    """A constructor whose assignment of a list assigns the stack; None where there is none to be found."""
    for place, statement in enumerate(function.body):
        if isinstance(statement, syntax.Lines) and (made := _in_lines(statement, held)) is not None:
            return replace(function, body=(*function.body[:place], made, *function.body[place + 1 :]))
    return None


def _in_lines(lines: syntax.Lines, held: str) -> syntax.Lines | None:
    for each in ast.parse(lines.text).body:
        match each:
            case ast.Assign(targets=[target], value=value) if ast.unparse(target) == held:
                name = f"_part{len(lines.parts)}_"
                within = value
                match value:
                    case ast.Call(func=ast.Name(id=callee), args=[items], keywords=[]) if not isinstance(
                        items, ast.Starred
                    ) and dotted(_part(lines, callee)).endswith("nnx.List"):
                        within = items
                start, end = _span(lines.text, value)
                inner = slice(*_span(lines.text, within))
                text = f"{lines.text[:start]}{name}({lines.text[inner]}){lines.text[end:]}"
                return syntax.Lines(text, (*lines.parts, _STACKED))
    return None


def _part(lines: syntax.Lines, name: str) -> syntax.Expr:
    """The expression that a name in the text stands for."""
    found = re.fullmatch(r"_part(\d+)_", name)
    return lines.parts[int(found[1])] if found else syntax.Name(name)


def _span(text: str, node: ast.expr) -> tuple[int, int]:
    """Where an expression stands in a text."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]

    def at(row: int, column: int) -> int:
        return len(b"".join(lines[: row - 1]).decode()) + len(lines[row - 1][:column].decode())

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
