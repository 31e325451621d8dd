"""Run the user's purely numeric functions on numbers that remember their origin.

A function that computes ``pad = [(window[i] - size[i] % window[i]) % window[i] for i in range(3)]`` then returns
numbers with origins. Only functions that do nothing but arithmetic on their arguments are run.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from port.translation.frontend.origins.arithmetic import is_number
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.origin_numbers import origin_of, plain, with_origin

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.Return, ast.Pass)
_EXPRESSIONS = (
    *(ast.Constant, ast.Name, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.ListComp, ast.comprehension, ast.Call),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    *(ast.expr_context, ast.arguments, ast.arg),
)
_BUILTINS = {"enumerate", "len", "list", "range", "tuple", "zip"}
"""Allowed builtins. Not ``min`` or ``max``: their result's origin would be that of the chosen operand alone."""


def of_numbers(function: Any, arguments: Sequence[Resolved]) -> Resolved:
    """Run a purely numeric function on resolved arguments; return an unknown result for any other function."""
    function = inspect.unwrap(function) if isinstance(function, FunctionType) else function
    if not isinstance(function, FunctionType) or not _is_of_numbers(function):
        return Resolved()
    try:
        return _found(function(*map(_number, arguments)))
    except Exception:  # the original's code may raise anything, and an argument may be unknown
        return Resolved()


def of_comprehension(node: ast.ListComp, resolve: Callable[[ast.expr, Mapping[str, int]], Resolved]) -> Resolved:
    """Resolve the items of ``[… for i in range(3)]``; return an unknown result for any other comprehension.

    Args:
        node: the comprehension.
        resolve: resolves an expression in it, for given values of its variables.
    """
    match node:
        case ast.ListComp(item, [ast.comprehension(ast.Name(name), ast.Call(ast.Name("range"), ends, []), [])]):
            found = [resolve(end, {}).value for end in ends]
            if all(type(end) is int for end in found) and 1 <= len(found) <= 3:
                return Resolved(items=tuple(resolve(item, {name: number}) for number in range(*found)))
    return Resolved()


def _number(found: Resolved) -> Any:
    """Return a number with its origin, or a list or tuple of such numbers.

    Raises:
        LookupError: the argument is anything else.
    """
    if is_number(found.value):
        return with_origin(found.value, found.origin)
    items = found.each_item()
    if items is None:
        raise LookupError
    return (tuple if isinstance(found.value, tuple) else list)(map(_number, items))


def _found(value: Any) -> Resolved:
    if isinstance(value, tuple | list):
        return Resolved(items=tuple(map(_found, value)))
    return Resolved(plain(value), origin_of(value)) if is_number(plain(value)) else Resolved()


@lru_cache(512)
def _is_of_numbers(function: FunctionType) -> bool:
    """Whether a function does nothing but arithmetic and branching on its arguments."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    match tree.body:
        case [ast.FunctionDef(args=args, body=body, decorator_list=[])] if not (args.vararg or args.kwarg):
            pass
        case _:
            return False
    own = {each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    body = body[1:] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body
    nodes = [node for statement in body for node in _walked(statement)]
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return all(_is_plain(node, own) for node in nodes)


def _walked(statement: ast.stmt) -> list[ast.AST]:
    """Return the nodes of a statement; an annotated assignment counts as one."""
    return list(ast.walk(statement)) if not isinstance(statement, ast.AnnAssign) else [statement]


def _is_plain(node: ast.AST, own: set[str]) -> bool:
    match node:
        case ast.Call(ast.Name(name), _, []):
            return name in _BUILTINS and name not in own
        case ast.Name(name):
            return name in own or name in _BUILTINS
    return isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)) and not isinstance(node, ast.Call | ast.AnnAssign)
