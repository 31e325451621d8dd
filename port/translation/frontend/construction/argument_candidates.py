"""What the arguments of a module's constructor may have been, by what the constructor's source did with them."""

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


class Reader:
    """Reads the constructors of modules; each module's is read once."""

    def __init__(self) -> None:
        self._known: dict[Any, Candidates] = {}
        self._kept: list[Any] = []

    def arguments_of(self, module: torch.nn.Module, init: Any = None) -> Candidates:
        """Names of the parameters of a module's constructor → what they may have been.

        Args:
            module: the module.
            init: the constructor of a class that the module's derives from; without one, that of its own.
        """
        init = inspect.unwrap(type(module).__init__ if init is None else init)
        return self._of(module, init, module)

    def arguments_of_call(self, function: FunctionType, module: torch.nn.Module, given: Any) -> Candidates:
        """The same of a function that a module's constructor called, by what it gave."""
        return self._of(module, inspect.unwrap(function), given)

    def _of(self, module: torch.nn.Module, function: Any, given: Any) -> Candidates:
        key = id(module), id(function), id(given)
        if key not in self._known:
            self._kept.append(given)  # its id is its own while it lives
            self._known[key] = {}  # for one that calls itself
            self._known[key] = _Body(self, module, function, given).candidates()
        return self._known[key]


class _Body:
    """One function: the constructor of a module, or what that calls."""

    def __init__(self, reader: Reader, module: torch.nn.Module, function: Any, given: Any) -> None:
        self._reader, self._module, self._function, self._given = reader, module, function, given
        self._tree = source_tree(function)
        self._matching = Matching(reader, module, function)

    def candidates(self) -> Candidates:
        """Names of its parameters → what they may have been."""
        if getattr(self._function, "__name__", "") == "__init__":
            self._of_attributes()
            self._of_base()
        else:
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Return) and node.value is not None:
                    self._matching.match(node.value, self._given, _ALIKE)
        self._of_layers(list(_layers(self._given)))
        return self._matching.candidates()

    def _of_attributes(self) -> None:
        """What the constructor assigns to attributes, and attributes that are named as a parameter is."""
        for target, value in assignments(self._tree):
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    self._matching.match(value, held_by(self._module, name), _STORED)
        for name in self._matching.parameters:
            for attribute in (name, f"_{name}"):
                self._matching.add(name, held_by(self._module, attribute), _NAMED)

    def _of_base(self) -> None:
        """What it gives to the constructor of the class that its class derives from."""
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
        """Of each call that makes a layer, one of the layers of that class: the source makes them in their order."""
        seen: Counter[str] = Counter()
        lengths = sorted({len(vars(layer)["_modules"]) for layer in layers if isinstance(layer, LISTS)})
        lengths += sorted(set(Counter(type(layer).__name__ for layer in layers).values()) - set(lengths))
        lengths += sorted({length - 1 for length in lengths} - set(lengths))  # one more stands before or behind
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


def _layers(given: Any) -> Iterator[torch.nn.Module]:
    """The modules in one, and in what of these is torch's own."""
    if not isinstance(given, torch.nn.Module):
        return
    if is_torchs(type(given)):
        yield given
    for child in given.children():
        if is_torchs(type(child)):
            yield from _layers(child)
        else:
            yield child
