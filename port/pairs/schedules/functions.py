"""Schedules from Python functions: their source, and whether JAX can trace them."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from port.pairs.expression import Expression, Given, imported_as

_TRIED = (0, 1, 2, 7, 30, 100, 999, 12345)
"""Steps at which a traced function must agree with Python."""


def expression_of(
    name: str, function: Any, steps: int | None, *leading: Any, needs_steps: bool = False
) -> Expression | None:
    """Return a schedule of `port.transforms` that calls a function; None if it has no source, or needs ``steps``.

    Args:
        name: of the schedule.
        function: the user's function.
        steps: number of steps to tabulate, if JAX cannot trace it.
        *leading: arguments before the function.
        needs_steps: whether the schedule always takes ``steps``.
    """
    spelled = spelled_function(function)
    if spelled is None:
        return None
    if not needs_steps and is_traceable(function):
        return Expression(f"port.transforms.{name}", (*leading, spelled))
    return None if steps is None else Expression(f"port.transforms.{name}", (*leading, spelled), {"steps": steps})


def spelled_function(function: Callable[..., Any]) -> Given | None:
    """Return a function's source: its name, or a lambda; None if neither is self-contained.

    A name must be that of a module-level function; in the running script it needs no import. A lambda may use only its
    parameter, builtins, and modules under their usual import names.
    """
    if not isinstance(function, FunctionType):
        return None
    module, name = function.__module__, function.__qualname__
    if name.isidentifier() and vars(sys.modules.get(module, object)).get(name) is function:
        return Given(function, name if module == "__main__" else f"{module}.{name}")
    return _lambda(function)


def is_traceable(function: Callable[[Any], Any]) -> bool:
    """Whether JAX can trace a function of the step, with the same values as Python."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        try:
            traced = jax.jit(lambda step: jnp.asarray(function(step), float))
            values = [(float(function(step)), float(traced(jnp.asarray(step, int)))) for step in _TRIED]
        except Exception:  # a function may raise anything for a traced value
            return False
    return all(math.isclose(plain, of_jax, rel_tol=1e-13, abs_tol=1e-300) for plain, of_jax in values)


def _lambda(function: FunctionType) -> Given | None:
    if function.__name__ != "<lambda>" or function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return None
    node = _lambda_of(function)
    if node is None:
        return None
    own = {argument.arg for argument in node.args.args}
    read = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} - own - set(dir(builtins))
    modules: dict[str, Any] = {name: function.__globals__.get(name) for name in read}
    known = [module.__name__ for name, module in modules.items() if _is_module(module, name)]
    return Given(function, ast.unparse(node), tuple(sorted(known))) if len(known) == len(modules) else None


def _is_module(thing: Any, name: str) -> bool:
    """Whether it is a module that source imports under this name."""
    return isinstance(thing, ModuleType) and imported_as(thing.__name__) == name


def _lambda_of(function: FunctionType) -> ast.Lambda | None:
    """Find the lambda in the source file that compiles to the function's code."""
    try:
        lines, _ = inspect.findsource(function)
        tree = ast.parse("".join(lines))
    except (OSError, SyntaxError, TypeError):
        return None
    places = set(function.__code__.co_positions())
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
                return node
    return None
