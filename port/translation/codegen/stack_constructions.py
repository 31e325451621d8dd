"""Emit constructors that stack equal layers for ``scan``: ``stacked([Block(64) for _ in range(depth)])``."""

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
    """Stack lists of layers in a generated constructor.

    Args:
        attributes: names → the constructor's expressions.
        stacks: the lists to stack.

    Returns:
        The attributes with their stacks, and statements to append that stack lists held elsewhere.
    """
    made: dict[str, syntax.Expr] = dict(attributes)
    later: list[syntax.Stmt] = []
    for stack in stacks:
        match stack.held:
            case syntax.Attribute(syntax.Name("self"), name) if name in made:
                made[name] = _stack_call(stack, _as_comprehension(_items(made[name])))
            case _:
                later.append(_restacked(stack))
    return made, later


def with_stacks_kept(functions: Sequence[syntax.FunctionDef], stacks: Sequence[LayerStack]) -> list[syntax.FunctionDef]:
    """Stack lists of layers in a constructor kept from the original.

    A list that the constructor only assigns is stacked there; any other is stacked at the constructor's end.

    Args:
        functions: the constructor, and the methods that it calls.
        stacks: the lists to stack.
    """
    constructor, *others = functions
    for stack in stacks:
        mentions = sum(_mentions(function, syntax.source(stack.held)) for function in functions)
        made = _in_place(constructor, stack) if mentions == 1 else None
        constructor = made or replace(constructor, body=(*constructor.body, _restacked(stack)))
    return [constructor, *others]


def _restacked(stack: LayerStack) -> syntax.Stmt:
    return syntax.Assign(stack.held, _stack_call(stack, stack.held))


def _stack_call(stack: LayerStack, layers: syntax.Expr) -> syntax.Expr:
    return syntax.Call(_STACKED if stack.is_whole else _PARTLY, (layers,), _bounds(stack))


def _bounds(stack: LayerStack) -> tuple[syntax.Keyword, ...]:
    """Return the keywords that exclude the list's first or last layers from the stack."""
    counts = {"before": stack.before, "after": stack.after}
    return tuple(syntax.Keyword(name, syntax.Const(count)) for name, count in counts.items() if count)


def _items(construction: syntax.Expr) -> syntax.Expr:
    """Return the elements of a list or a Sequential; any other construction unchanged."""
    match construction:
        case syntax.Call(callee, (items,), ()) if dotted(callee).endswith("nnx.List"):
            return items
        case syntax.Call(callee, (syntax.Starred(items),), ()) if dotted(callee).endswith("nnx.Sequential"):
            return items
        case syntax.Call(callee, items, ()) if dotted(callee).endswith("nnx.Sequential"):
            return syntax.List(items)
    return construction


def _as_comprehension(items: syntax.Expr) -> syntax.Expr:
    """Write calls that differ only in constants as ``[Block(64, rate=rate) for rate in (0.0, 0.1, 0.2)]``."""
    match items:
        case syntax.List((syntax.Call(callee, (), keywords), *others)) if others and all(
            isinstance(other, syntax.Call) and other.func == callee and not other.args for other in others
        ):
            arguments = [{each.arg: each.value for each in item.keywords} for item in items.elts]  # type: ignore[attr-defined]
        case _:
            return items
    names = [each.arg for each in keywords]
    differing = [name for name in names if any(each.get(name) != arguments[0][name] for each in arguments)]
    constants = [[each.get(name) for each in arguments] for name in differing]
    taken = names_in(*arguments[0].values())
    if not differing or any(list(each) != names for each in arguments) or not all(map(_are_constants, constants)):
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
    """Return the iterable of a comprehension: ``range(4)``, ``(0.0, 0.1)``, or tuples of these."""
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
    """Replace a constructor's assignment of a list by that of the stack; None if no such assignment is found."""
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
                run = "".join(f", {each.arg}={syntax.source(each.value)}" for each in _bounds(stack))
                text = f"{lines.text[:start]}{name}({lines.text[inner]}{run}){lines.text[end:]}"
                return syntax.Lines(text, (*lines.parts, _STACKED if stack.is_whole else _PARTLY))
    return None


def _within(lines: syntax.Lines, made: ast.expr) -> ast.expr:
    """Return the elements of a list or a Sequential, ``blocks`` of ``nnx.Sequential(*blocks)``; else the expression."""
    match made:
        case ast.Call(func=ast.Name(id=callee), args=[ast.Starred(value=items)], keywords=[]):
            is_list = dotted(_part(lines, callee)).endswith("nnx.Sequential")
        case ast.Call(func=ast.Name(id=callee), args=[items], keywords=[]):
            is_list = dotted(_part(lines, callee)).endswith("nnx.List")
        case _:
            return made
    return items if is_list else made


def _part(lines: syntax.Lines, name: str) -> syntax.Expr:
    """Return the expression that a placeholder in the text stands for."""
    found = re.fullmatch(r"_part(\d+)_", name)
    return lines.parts[int(found[1])] if found else syntax.Name(name)


def _span(text: str, node: ast.expr) -> tuple[int, int]:
    """Return the start and end of an expression in a text, in characters."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]

    def at(row: int, column: int) -> int:
        return len(b"".join(lines[: row - 1]).decode()) + len(lines[row - 1][:column].decode())

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
