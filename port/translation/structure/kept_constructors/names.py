"""What the names in a constructor's source stand for, and what is written for them."""

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
"""In the place of what a name stands for: it is one of the function's own, or nobody knows."""


class Names:
    """Looks the names of a function's source up.

    Args:
        values: of classes that are handed on.
        written: classes of modules → what they are called.
        found: is filled.
    """

    def __init__(self, values: ClassValues, written: dict[type, str], found: AlsoWritten) -> None:
        self._values, self._written, self.found = values, written, found

    def stands_for(self, node: ast.expr, function: Any, own: set[str]) -> Any:
        """What a name, or a chain of names, stands for in a function; `NOTHING` where that is not known beforehand.

        Args:
            node: the expression.
            function: around it; or a class, for what stands in its body.
            own: the function's own names.
        """
        match node:
            case ast.Name(id=name) if name not in own:
                return _global(function, name)
            case ast.Attribute(value=value, attr=name):
                owner = self.stands_for(value, function, own)
                return getattr(owner, name, NOTHING) if isinstance(owner, ModuleType) else NOTHING
        return NOTHING

    def _is_there(self, node: ast.expr, function: Any, own: set[str]) -> bool:
        """Whether an expression is a module of which what it gives stays as it is."""
        thing = self.stands_for(node, function, own)
        return isinstance(thing, ModuleType) and _is_there(thing.__name__)

    def written(self, node: ast.Name | ast.Attribute, thing: Any, function: Any, own: set[str]) -> syntax.Expr | None:
        """What is written for a name, by what it stands for; None where it stays as it is.

        Args:
            node: the name, or a chain of names.
            thing: that it stands for.
            function: around it, and
            own: the function's own names, as in `stands_for`.

        Raises:
            CannotKeep: source cannot say it.
        """
        if thing is getattr(builtins, getattr(thing, "__name__", ""), NOTHING):
            return None
        if self._values.is_layer(thing):
            return self._values.expression(thing)
        if isinstance(thing, type) and thing in self._written:
            return syntax.Name(self._written[thing])
        if thing is partial:
            return syntax.Name("partial")
        if thing is torch.linspace:  # each layer's rate, say; a table is written otherwise
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
            raise CannotKeep(f"its constructor reads {ast.unparse(node)}, which JAX has not") from None

    def _take_import(self, name: str, thing: Any) -> None:
        """Take note of the line that gives a module, or what is in one, its name."""
        if isinstance(thing, ModuleType):
            home = thing.__name__
            self.found.imports.add(f"import {home}" if home == name else f"import {home} as {name}")
            return
        its = getattr(thing, "__name__", None) or name
        self.found.imports.add(f"from {thing.__module__} import {its}" + ("" if its == name else f" as {name}"))


_PLAIN = (bool, int, float, complex, str, bytes, tuple, list, dict)
_THERE = sys.stdlib_module_names | {"numpy"}
"""Packages that are there wherever JAX is."""
_DRAWS = "numpy.random"
"""What it gives depends on more than what it is given."""


def _is_there(module: str) -> bool:
    """Whether what a module gives stays as it is: it is Python's own, or of what JAX itself needs."""
    return module.partition(".")[0] in _THERE and not f"{module}.".startswith(f"{_DRAWS}.")


def _first(node: ast.expr) -> ast.Name:
    """The name at the head of a chain of names."""
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
