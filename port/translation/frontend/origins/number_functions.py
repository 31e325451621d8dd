"""The user's functions of plain numbers alone, carried out on numbers that remember where they come from.

``pad = [(window[i] - size[i] % window[i]) % window[i] for i in range(3)]`` of a function's is what it is of the numbers
that a call gives it. Only such functions are called as can do nothing but arithmetic on what they are given.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.origins.worked_out import is_number
from port.translation.ir.origin_numbers import origin_of, plain, with_origin

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.Return, ast.Pass)
_EXPRESSIONS = (
    *(ast.Constant, ast.Name, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.ListComp, ast.comprehension, ast.Call),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    *(ast.expr_context, ast.arguments, ast.arg),
)
_BUILTINS = {"enumerate", "len", "list", "range", "tuple", "zip"}
"""Of a function that picks one of its numbers, as ``min``, the origin would be that of the one."""


def of_numbers(function: Any, arguments: Sequence[Resolved]) -> Resolved:
    """What a function of plain numbers gives of numbers whose origin is known; nothing of any other function."""
    function = inspect.unwrap(function) if isinstance(function, FunctionType) else function
    if not isinstance(function, FunctionType) or not _is_of_numbers(function):
        return Resolved()
    try:
        return _found(function(*map(_given, arguments)))
    except Exception:  # it is the original's code, and what it is given is not all known
        return Resolved()


def of_comprehension(node: ast.ListComp, resolve: Callable[[ast.expr, Mapping[str, int]], Resolved]) -> Resolved:
    """The items of ``[… for i in range(3)]``; nothing of other comprehensions.

    Args:
        node: the comprehension.
        resolve: what is known of an expression in it, given the numbers that its variables have.
    """
    match node:
        case ast.ListComp(item, [ast.comprehension(ast.Name(name), ast.Call(ast.Name("range"), ends, []), [])]):
            found = [resolve(end, {}).value for end in ends]
            if all(type(end) is int for end in found) and 1 <= len(found) <= 3:
                return Resolved(items=tuple(resolve(item, {name: number}) for number in range(*found)))
    return Resolved()


def _given(found: Resolved) -> Any:
    """A number with its origin, or a list or a tuple of such.

    Raises:
        LookupError: it is something else.
    """
    if is_number(found.value):
        return with_origin(found.value, found.origin)
    items = found.each_item()
    if items is None:
        raise LookupError
    return (tuple if isinstance(found.value, tuple) else list)(map(_given, items))


def _found(value: Any) -> Resolved:
    if isinstance(value, tuple | list):
        return Resolved(items=tuple(map(_found, value)))
    return Resolved(plain(value), origin_of(value)) if is_number(plain(value)) else Resolved()


@lru_cache(512)
def _is_of_numbers(function: FunctionType) -> bool:
    """Whether a function does nothing but arithmetic, and choices, on what it is given."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    match tree.body:
        case [ast.FunctionDef(args=given, body=body, decorator_list=[])] if not (given.vararg or given.kwarg):
            pass
        case _:
            return False
    own = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    body = body[1:] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body
    nodes = [node for statement in body for node in _walked(statement)]
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return all(_is_plain(node, own) for node in nodes)


def _walked(statement: ast.stmt) -> list[ast.AST]:
    """What stands in a statement, but for annotations."""
    return list(ast.walk(statement)) if not isinstance(statement, ast.AnnAssign) else [statement]


def _is_plain(node: ast.AST, own: set[str]) -> bool:
    match node:
        case ast.Call(ast.Name(name), _, []):
            return name in _BUILTINS and name not in own
        case ast.Name(name):
            return name in own or name in _BUILTINS
    return isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)) and not isinstance(node, ast.Call | ast.AnnAssign)
