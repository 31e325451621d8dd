"""Constructors that make one stack of a list of equal layers: ``stacked([Block(64) for _ in range(depth)])``."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted, names_in, worth
from port.translation.structure.layer_stack import LayerStack

_STACKED, _PARTLY = code("port.nn.stacked"), code("port.nn.partly_stacked")


def with_stacks_made(
    attributes: Mapping[str, syntax.Expr], stacks: Sequence[LayerStack]
) -> tuple[dict[str, syntax.Expr], list[syntax.Stmt]]:
    """Constructions of attributes, some of them stacks; and the statements behind them that make stacks of others.

    Args:
        attributes: names → what the constructor makes.
        stacks: the lists of which there are to be stacks.
    """
    made: dict[str, syntax.Expr] = dict(attributes)
    later: list[syntax.Stmt] = []
    for stack in stacks:
        match stack.held:
            case syntax.Attribute(syntax.Name("self"), name) if name in made:
                made[name] = _made_of(stack, _by_numbers(_items(made[name])))
            case _:
                later.append(_again(stack))
    return made, later


def with_stacks_kept(functions: Sequence[syntax.FunctionDef], stacks: Sequence[LayerStack]) -> list[syntax.FunctionDef]:
    """A constructor in the original's words, and the methods that it calls, that makes stacks.

    Where the list is made and nothing else is done to it, the stack is made in its place; otherwise at the end.
    """
    constructor, *others = functions
    for stack in stacks:
        mentions = sum(_mentions(function, syntax.source(stack.held)) for function in functions)
        made = _in_place(constructor, stack) if mentions == 1 else None
        constructor = made or replace(constructor, body=(*constructor.body, _again(stack)))
    return [constructor, *others]


def _again(stack: LayerStack) -> syntax.Stmt:
    return syntax.Assign(stack.held, _made_of(stack, stack.held))


def _made_of(stack: LayerStack, layers: syntax.Expr) -> syntax.Expr:
    return syntax.Call(_STACKED if stack.is_whole else _PARTLY, (layers,), _run(stack))


def _run(stack: LayerStack) -> tuple[syntax.Keyword, ...]:
    """Which layers of a list are the stack."""
    given = {"before": stack.before, "after": stack.after}
    return tuple(syntax.Keyword(name, syntax.Const(count)) for name, count in given.items() if count)


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


def _by_numbers(items: syntax.Expr) -> syntax.Expr:
    """Calls that differ by constants alone as one: ``[Block(64, rate=rate) for rate in (0.0, 0.1, 0.2)]``."""
    match items:
        case syntax.List((syntax.Call(callee, (), keywords), *others)) if others and all(
            isinstance(other, syntax.Call) and other.func == callee and not other.args for other in others
        ):
            given = [{each.arg: each.value for each in item.keywords} for item in items.elts]  # type: ignore[attr-defined]
        case _:
            return items
    names = [each.arg for each in keywords]
    differing = [name for name in names if any(each.get(name) != given[0][name] for each in given)]
    constants = [[each.get(name) for each in given] for name in differing]
    taken = names_in(*given[0].values())
    if not differing or any(list(each) != names for each in given) or not all(map(_are_constants, constants)):
        return items
    if None in differing or taken & {*differing}:
        return items
    counted = [name or "" for name in differing]
    own = {name: syntax.Name(name) for name in counted}
    item = syntax.Call(callee, (), tuple(replace(each, value=own.get(each.arg or "", each.value)) for each in keywords))
    rows = [tuple(row) for row in zip(*constants, strict=True)]
    target = syntax.Tuple(tuple(own.values())) if len(own) > 1 else next(iter(own.values()))
    return syntax.ListComp(item, (syntax.Comprehension(target, _values(rows)),))


def _values(rows: Sequence[tuple[Any, ...]]) -> syntax.Expr:
    """What a comprehension goes through: ``range(4)``, ``(0.0, 0.1)``, or tuples of such."""
    if len(rows[0]) > 1:
        return syntax.Tuple(tuple(map(syntax.Tuple, rows)))
    values = tuple(row[0] for row in rows)
    if values == tuple(map(syntax.Const, range(len(values)))):
        return code(f"range({len(values)})")
    return syntax.Tuple(values)


def _are_constants(values: Sequence[Any]) -> bool:
    try:
        return all(isinstance(worth(value), int | float) for value in values)
    except ValueError:
        return False


def _mentions(function: syntax.FunctionDef, held: str) -> int:
    pattern = re.compile(rf"(?<![\w.]){re.escape(held)}(?!\w)")
    texts = [statement.text for statement in function.body if isinstance(statement, syntax.Lines)]
    return sum(len(pattern.findall(text)) for text in texts)


def _in_place(function: syntax.FunctionDef, stack: LayerStack) -> syntax.FunctionDef | None:
    """A constructor whose assignment of a list assigns the stack; None where there is none to be found."""
    for place, statement in enumerate(function.body):
        if isinstance(statement, syntax.Lines) and (made := _in_lines(statement, stack)) is not None:
            return replace(function, body=(*function.body[:place], made, *function.body[place + 1 :]))
    return None


def _in_lines(lines: syntax.Lines, stack: LayerStack) -> syntax.Lines | None:
    held = syntax.source(stack.held)
    for each in ast.parse(lines.text).body:
        match each:
            case ast.Assign(targets=[target], value=value) if ast.unparse(target) == held:
                name = f"_part{len(lines.parts)}_"
                start, end = _span(lines.text, value)
                inner = slice(*_span(lines.text, _within(lines, value)))
                run = "".join(f", {each.arg}={syntax.source(each.value)}" for each in _run(stack))
                text = f"{lines.text[:start]}{name}({lines.text[inner]}{run}){lines.text[end:]}"
                return syntax.Lines(text, (*lines.parts, _STACKED if stack.is_whole else _PARTLY))
    return None


def _within(lines: syntax.Lines, made: ast.expr) -> ast.expr:
    """What a list or a Sequential is made of: ``blocks`` of ``nnx.Sequential(*blocks)``; what else there is, itself."""
    match made:
        case ast.Call(func=ast.Name(id=callee), args=[ast.Starred(value=items)], keywords=[]):
            is_list = dotted(_part(lines, callee)).endswith("nnx.Sequential")
        case ast.Call(func=ast.Name(id=callee), args=[items], keywords=[]):
            is_list = dotted(_part(lines, callee)).endswith("nnx.List")
        case _:
            return made
    return items if is_list else made


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
