"""Resolve the names in a constructor's source, and write them."""

from __future__ import annotations

import ast
import builtins
import sys
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import torch

from port.translation.frontend.construction.construction_calls import is_own
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, code, literal
from port.translation.structure.kept_constructors.also_written import AlsoWritten, is_own_function
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.class_values import ClassValues

NOTHING = object()
"""The value of a name that is local to the function or unknown."""


class Names:
    """Resolves names in a function's source.

    Args:
        values: writes classes that are passed as values.
        written: module class → name of the written class.
        found: collects the definitions that are needed.
    """

    def __init__(self, values: ClassValues, written: dict[type, str], found: AlsoWritten) -> None:
        self._values, self._written, self.found = values, written, found

    def stands_for(self, node: ast.expr, function: Any, own: set[str]) -> Any:
        """The value of a name or dotted name in a function; `NOTHING` if it is not known in advance.

        Args:
            node: the expression.
            function: the function around it; or a class, for names in a class body.
            own: the function's local names.
        """
        match node:
            case ast.Name(id=name) if name not in own:
                return _global(function, name)
            case ast.Attribute(value=value, attr=name):
                owner = self.stands_for(value, function, own)
                return getattr(owner, name, NOTHING) if isinstance(owner, ModuleType) else NOTHING
        return NOTHING

    def _is_there(self, node: ast.expr, function: Any, own: set[str]) -> bool:
        """Whether an expression is a module whose contents may be used unchanged."""
        thing = self.stands_for(node, function, own)
        return isinstance(thing, ModuleType) and _is_there(thing.__name__)

    def written(self, node: ast.Name | ast.Attribute, thing: Any, function: Any, own: set[str]) -> syntax.Expr | None:
        """Write a name according to its value; None where it stays unchanged.

        Args:
            node: the name or dotted name.
            thing: its value.
            function: the function around it.
            own: the function's local names, as in `stands_for`.

        Raises:
            CannotKeep: it has no source form.
        """
        if thing is getattr(builtins, getattr(thing, "__name__", ""), NOTHING):
            return None
        if self._values.is_layer(thing):
            return self._values.expression(thing)
        if isinstance(thing, type) and thing in self._written:
            return syntax.Name(self._written[thing])
        if thing is partial:
            return syntax.Name("partial")
        if thing is torch.linspace:  # such as each layer's drop rate; tables are written elsewhere
            return code("port.nn.torch_linspace")
        if isinstance(node, ast.Attribute) and self._is_there(node.value, function, own):
            first = _first(node)  # math.pi
            self._take_import(first.id, self.stands_for(first, function, own))
            return None
        home = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None) or ""
        if isinstance(node, ast.Name) and _is_there(home) and not isinstance(thing, _PLAIN):
            self._take_import(node.id, thing)
            return None
        if isinstance(thing, FunctionType) and is_own_function(thing):
            return self.found.function(thing)
        if isinstance(thing, type) and is_own(thing) and not issubclass(thing, torch.nn.Module):
            self.found.classes[thing] = None
            return syntax.Name(thing.__name__)
        try:
            return literal(thing)
        except NoSource:
            raise CannotKeep(f"its constructor uses {ast.unparse(node)}, which has no counterpart in JAX") from None

    def _take_import(self, name: str, thing: Any) -> None:
        """Record the import line of a module, or of a name from a module."""
        if isinstance(thing, ModuleType):
            home = thing.__name__
            self.found.imports.add(f"import {home}" if home == name else f"import {home} as {name}")
            return
        its = getattr(thing, "__name__", None) or name
        self.found.imports.add(f"from {thing.__module__} import {its}" + ("" if its == name else f" as {name}"))


_PLAIN = (bool, int, float, complex, str, bytes, tuple, list, dict)
_THERE = sys.stdlib_module_names | {"numpy"}
"""Packages that are installed wherever JAX is."""
_DRAWS = "numpy.random"
"""Its results depend on more than the arguments."""


def _is_there(module: str) -> bool:
    """Whether a module may be used unchanged: it belongs to Python, or JAX itself depends on it."""
    return module.partition(".")[0] in _THERE and not f"{module}.".startswith(f"{_DRAWS}.")


def _first(node: ast.expr) -> ast.Name:
    """The first name of a dotted name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)
    return node


def _global(function: Any, name: str) -> Any:
    if isinstance(function, FunctionType):
        if name in function.__code__.co_freevars:
            cell = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))[name]
            return cell.cell_contents
        known = function.__globals__
    else:
        known = vars(sys.modules[function.__module__])
    return known.get(name, getattr(builtins, name, NOTHING))
