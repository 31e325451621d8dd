"""Candidate values for a module's constructor arguments, inferred from what the constructor's source did with them."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.argument_matching import LISTS, Candidates, Matching
from port.translation.frontend.construction.constructor_source import (
    assignments,
    calls,
    last_name,
    next_init,
    parameters_of,
)
from port.translation.frontend.construction.function_trees import source_tree
from port.translation.frontend.construction.likeness import held_by, is_torchs

_STORED, _ALIKE, _NAMED = 0, 1, 2
"""Costs of a candidate: stored by the constructor; inferred from a layer or a result; an attribute of the same name."""


class Reader:
    """Reads the constructors of modules, with a cache."""

    def __init__(self) -> None:
        self._known: dict[Any, Candidates] = {}
        self._kept: list[Any] = []

    def arguments_of(self, module: torch.nn.Module, init: Any = None) -> Candidates:
        """Return the candidates for each parameter of a module's constructor.

        Args:
            module: the module.
            init: a base class's constructor; by default the module's own.
        """
        init = inspect.unwrap(type(module).__init__ if init is None else init)
        return self._of(module, init, module)

    def arguments_of_call(self, function: FunctionType, module: torch.nn.Module, result: Any) -> Candidates:
        """Return the candidates for a function that a module's constructor called, given the function's result."""
        return self._of(module, inspect.unwrap(function), result)

    def _of(self, module: torch.nn.Module, function: Any, result: Any) -> Candidates:
        key = id(module), id(function), id(result)
        if key not in self._known:
            self._kept.append(result)  # an id is unique only while its object is alive
            self._known[key] = {}  # ends the recursion of a function that calls itself
            self._known[key] = _Body(self, module, function, result).candidates()
        return self._known[key]


class _Body:
    """The body of one function: a module's constructor, or a function that it calls."""

    def __init__(self, reader: Reader, module: torch.nn.Module, function: Any, result: Any) -> None:
        self._reader, self._module, self._function, self._result = reader, module, function, result
        self._tree = source_tree(function)
        self._matching = Matching(reader, module, function)

    def candidates(self) -> Candidates:
        """Return the candidates for each of the function's parameters."""
        if getattr(self._function, "__name__", "") == "__init__":
            self._of_attributes()
            self._of_base()
        else:
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Return) and node.value is not None:
                    self._matching.match(node.value, self._result, _ALIKE)
        self._of_layers(list(_layers(self._result)))
        return self._matching.candidates()

    def _of_attributes(self) -> None:
        """Match what the constructor assigns to attributes, and attributes with the name of a parameter."""
        for target, value in assignments(self._tree):
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    self._matching.match(value, held_by(self._module, name), _STORED)
        for name in self._matching.parameters:
            for attribute in (name, f"_{name}"):
                self._matching.add(name, held_by(self._module, attribute), _NAMED)

    def _of_base(self) -> None:
        """Match the arguments of the call of the base class's constructor."""
        init = next_init(type(self._module), self._function)
        if init is None:
            return
        for node in ast.walk(self._tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Call(), attr="__init__")):
                    pass
                case ast.Call(func=ast.Attribute(value=ast.Name(), attr="__init__"), args=[_, *args]):
                    node = ast.Call(node.func, args, node.keywords)
                case _:
                    continue
            self._matching.match_call(node, parameters_of(init), self._reader.arguments_of(self._module, init), 0)

    def _of_layers(self, layers: list[torch.nn.Module]) -> None:
        """Match each call that makes a layer with a layer of that class, in the order of the source."""
        seen: Counter[str] = Counter()
        lengths = sorted({len(vars(layer)["_modules"]) for layer in layers if isinstance(layer, LISTS)})
        lengths += sorted(set(Counter(type(layer).__name__ for layer in layers).values()) - set(lengths))
        lengths += sorted({length - 1 for length in lengths} - set(lengths))  # one layer may come before or after
        for call in calls(self._tree):
            name = last_name(call.func)
            alike = [layer for layer in layers if type(layer).__name__ == name]
            if isinstance(call.func, ast.Name) and name in self._matching.parameters:
                alike = [layer for layer in layers if not is_torchs(type(layer))] or layers
            if alike:
                likely = (alike[min(seen[name], len(alike) - 1)], alike[0], alike[-1])
                for cost, layer in enumerate({id(layer): layer for layer in likely}.values()):
                    self._matching.match(call, layer, _ALIKE + cost)
                seen[name] += 1
            if name == "range" and call.args:
                for cost, length in enumerate(lengths[:8]):
                    self._matching.match(call.args[-1 if len(call.args) < 3 else 1], length, _ALIKE + cost)


def _layers(value: Any) -> Iterator[torch.nn.Module]:
    """Yield a module's direct submodules, and those inside torch's own ones."""
    if not isinstance(value, torch.nn.Module):
        return
    if is_torchs(type(value)):
        yield value
    for child in value.children():
        if is_torchs(type(child)):
            yield from _layers(child)
        else:
            yield child
