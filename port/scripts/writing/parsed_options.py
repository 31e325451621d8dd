"""Inline a script's function that parses options: ``args = get_args()`` becomes the function's statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from port.scripts.writing.own_calls import Function
from port.scripts.writing.taken_statements import called_name, calls_in


def with_options_parsed(tree: ast.Module) -> ast.Module:
    """A script's source with the call of such a function replaced by its statements.

    Its other changes to the options, ``args.cuda = not args.no_cuda``, are then among the lines before the data.
    """
    functions = {one.name: one for one in tree.body if isinstance(one, Function) and _parsed(one) is not None}
    if functions:
        for body in (tree.body, *(one.body for one in tree.body if isinstance(one, Function))):
            body[:] = [inner for one in body for inner in _in_place(one, functions)]
    return tree


def _in_place(statement: ast.stmt, functions: dict[str, Function]) -> Sequence[ast.stmt]:
    match statement:
        case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=ast.Name(called), args=[], keywords=[])) if (
            called in functions
        ):
            function = functions[called]
        case _:
            return [statement]
    value = _parsed(function)
    assert value is not None
    before = [one for one in function.body if not isinstance(one, ast.Return) and not _is_docstring(one)]
    if isinstance(value, ast.Name) and value.id == name:
        return before
    assignment = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), statement)
    assignment.col_offset += 1  # the file has other source there
    return [*before, ast.fix_missing_locations(assignment)]


def _parsed(function: Function) -> ast.expr | None:
    """The expression that an option-parsing function returns: a call of parse_args, or the options' name."""
    last = function.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    returns = [one for one in ast.walk(function) if isinstance(one, ast.Return)]
    match value:
        case ast.Call() if called_name(value) == "parse_args" and len(returns) == 1:
            return value
        case ast.Name(name) if len(returns) == 1 and name in _names_of_options(function):
            return value
    return None


def _names_of_options(function: Function) -> set[str]:
    return {
        target.id
        for one in function.body
        if isinstance(one, ast.Assign) and any(called_name(call) == "parse_args" for call in calls_in(one.value))
        for target in one.targets
        if isinstance(target, ast.Name)
    }


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
