"""Parse functions to syntax trees, and recompile them so that their calls can be intercepted."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any

_CALLED = "__called__"


@lru_cache(512)
def source_tree(thing: Any) -> ast.Module:
    """Parse the source of a function or a class; an empty module where there is none."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], [])


def definition_of(function: FunctionType) -> ast.FunctionDef | None:
    """Return a function's definition; None where its source cannot be read, or is a lambda."""
    match source_tree(function).body:
        case [ast.FunctionDef() as made] if made.name == function.__name__:
            return made
    return None


def calls_of(definition: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls in a function's body, which are numbered in this order; ``super()`` itself is not counted."""
    return [
        node
        for statement in definition.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and not _is_super(node)
    ]


def _is_super(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "super"


def with_calls_intercepted(function: FunctionType, called: Callable[..., Any]) -> FunctionType | None:
    """Recompile a function so that every call in it goes through ``called``; None where it has no usable source.

    Args:
        function: the user's function.
        called: receives the number of a call, the callable and its arguments, and returns the call's result.
    """
    definition = definition_of(function)
    if definition is None:
        return None
    made = copy.deepcopy(definition)
    made.decorator_list, made.returns = [], None
    for argument in ast.walk(made.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    nothing = ast.Constant(None)
    made.args.defaults = [nothing] * len(made.args.defaults)
    made.args.kw_defaults = [default and nothing for default in made.args.kw_defaults]
    for number, node in enumerate(calls_of(made)):
        node.args = [ast.Constant(number), node.func, *node.args]
        node.func = ast.Name(_CALLED, ast.Load())
    code = _compiled(made, function)
    if code is None:
        return None
    own = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = {**own, _CALLED: CellType(called)}
    if not set(code.co_freevars) <= set(cells):
        return None
    closure = tuple(cells[name] for name in code.co_freevars)
    other = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    other.__kwdefaults__ = function.__kwdefaults__
    return other


def _compiled(definition: ast.FunctionDef, function: FunctionType) -> CodeType | None:
    """Compile a definition inside a class of the right name, so that names with two underscores are mangled alike."""
    *_, owner, _ = ["", *function.__qualname__.split(".")]
    inside: ast.stmt = definition
    if owner and owner != "<locals>":
        inside = ast.ClassDef(f"_{owner}", [], [], [definition], [])  # mangling strips leading underscores
    names = [ast.arg(name) for name in (*function.__code__.co_freevars, _CALLED) if name != "__class__"]
    around = ast.FunctionDef("around", ast.arguments([], names, None, [], [], None, []), [inside], [])
    module = ast.fix_missing_locations(ast.Module([around], []))
    waiting = [compile(module, function.__code__.co_filename, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        if code.co_name == function.__name__ and code.co_argcount == function.__code__.co_argcount:
            return code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None
