"""Infer a constructor's arguments from the values of expressions in its source."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, Protocol

import torch

from port.translation.frontend.construction.constructor_source import (
    arguments,
    assignments,
    is_switch,
    last_name,
    parameters_of,
    with_item,
)
from port.translation.frontend.construction.function_trees import source_tree
from port.translation.frontend.construction.likeness import held_by, is_plain, is_torchs
from port.translation.frontend.origins.frame_objects import MISSING

_MOST_COSTLY = 9
_OF_SHAPE = ("empty", "zeros", "ones", "rand", "randn", "full", "Tensor", "FloatTensor", "arange", "eye")
LISTS = (torch.nn.Sequential, torch.nn.ModuleList)
"""torch's containers that hold layers in order."""
_INVERSE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Mult: lambda made, by: made / by if made % by else made // by,
    ast.FloorDiv: lambda made, by: made * by,
    ast.Div: lambda made, by: made * by,
    ast.Add: lambda made, by: made - by,
    ast.Sub: lambda made, by: made + by,
}
"""The inverse of each operator: from its result and one operand, the other operand."""


@dataclass(frozen=True)
class ArgumentCandidate:
    """A possible value of an argument.

    Attributes:
        cost: how uncertain it is: 0 for a value that the constructor stores unchanged.
        value: the value.
    """

    cost: int
    value: Any


Candidates = dict[str, list[ArgumentCandidate]]
"""Parameter name → its candidates."""


class ReadsArguments(Protocol):
    """Finds the candidates for the arguments of other calls."""

    def arguments_of(self, module: torch.nn.Module, init: Any = None) -> Candidates:
        """Return the candidates for a module's constructor."""
        ...

    def arguments_of_call(self, function: FunctionType, module: torch.nn.Module, result: Any) -> Candidates:
        """Return the candidates for a function that a module's constructor called, given the function's result."""
        ...


class Matching:
    """Collects candidates for a function's arguments from the values of its expressions.

    Args:
        reader: finds the arguments of functions that this one calls.
        module: the module whose constructor runs the function.
        function: the constructor, or a function that it calls.

    Attributes:
        parameters: the function's parameters.
    """

    def __init__(self, reader: ReadsArguments, module: torch.nn.Module, function: Any) -> None:
        self.parameters = parameters_of(function)
        self._reader, self._module, self._function = reader, module, function
        self._found: Candidates = defaultdict(list)
        self._items: dict[str, dict[int, ArgumentCandidate]] = defaultdict(dict)
        self._operators: list[tuple[ast.BinOp, Any, int]] = []
        self._matched: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._locals: dict[str, list[ast.expr]] = defaultdict(list)
        for target, value in assignments(source_tree(function)):
            if isinstance(target, ast.Name):
                self._locals[target.id].append(value)

    def candidates(self) -> Candidates:
        """Return the candidates for each parameter."""
        self._match_operators()
        for name, items in self._items.items():
            if sorted(items) == list(range(len(items))):
                cost = max(item.cost for item in items.values())
                kind = tuple if isinstance(self.parameters[name].default, tuple) else list
                self.add(name, kind(items[place].value for place in range(len(items))), cost)
        return dict(self._found)

    def match(self, expression: ast.expr, value: Any, cost: int) -> None:
        """Record what an expression's value implies for the parameters."""
        key = id(expression), id(value)
        if cost > _MOST_COSTLY or value is MISSING or self._matched.get(key, cost + 1) <= cost:
            return
        self._matched[key] = cost
        self._kept += expression, value  # an id is unique only while its object is alive
        match expression:
            case ast.Name(id=name):
                self.add(name, value, cost)
                for assigned in self._locals.get(name, ()):
                    self.match(assigned, value, cost + 1)
            case ast.Call():
                self._match_made(expression, value, cost)
            case ast.IfExp(body=body, orelse=other):
                self.match(body, value, cost)
                self.match(other, value, cost)
            case ast.BoolOp(values=values):
                for each in values:
                    self.match(each, value, cost)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(place))) if is_plain(value):
                known = self._items[name].get(place) if name in self.parameters else MISSING
                if known is None or (isinstance(known, ArgumentCandidate) and known.cost > cost + 1):
                    self._items[name][place] = ArgumentCandidate(cost + 1, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if isinstance(value, tuple | list):
                if len(parts) == len(value):
                    for part, item in zip(parts, value, strict=True):
                        self.match(part, item, cost)
            case ast.BinOp(left=left, right=right) if isinstance(value, torch.Tensor):
                self._match_tensor("", [left, right], value, cost)
            case ast.BinOp():
                self._operators.append((expression, value, cost))  # until one operand is known

    def _match_operators(self) -> None:
        """Solve for an operator's unknown operand, from its result and the other operand."""
        while self._operators:
            operator, made, cost = self._operators.pop(0)
            if type(operator.op) not in _INVERSE or isinstance(made, bool) or not isinstance(made, int | float):
                continue
            sides = [(operator.left, operator.right)]
            if isinstance(operator.op, ast.Mult | ast.Add):
                sides.append((operator.right, operator.left))
            for unknown, known in sides:
                if by := self._number(known):
                    self.match(unknown, _INVERSE[type(operator.op)](made, by), cost + 1)

    def _number(self, expression: ast.expr) -> int | float | None:
        """Return the number that an expression stands for: a literal, a known argument or an attribute; else None."""
        match expression:
            case ast.Constant(value=value):
                pass
            case ast.Name(id=name) if name in self._found:
                value = min(self._found[name], key=lambda candidate: candidate.cost).value
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                value = held_by(self._module, name)
            case _:
                return None
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def _match_made(self, call: ast.Call, value: Any, cost: int) -> None:
        name = last_name(call.func)
        function = self._called_function(call.func)
        if isinstance(value, torch.Tensor):
            self._match_tensor(name, call.args, value, cost)
        elif isinstance(function, FunctionType):  # its source is read; it is not called
            found = self._reader.arguments_of_call(function, self._module, value)
            self.match_call(call, parameters_of(function), found, cost)
        elif not isinstance(value, torch.nn.Module):
            if len(call.args) == 1:  # int(x), tuple(x)
                self.match(call.args[0], value, cost + 1)
        elif isinstance(value, LISTS) and is_torchs(type(value)):
            self._match_list(call, value, cost)
        elif name == type(value).__name__ or (isinstance(call.func, ast.Name) and function is MISSING):
            self.match(call.func, type(value), cost + 1)
            init = type(value).__init__
            self.match_call(call, parameters_of(init), self._reader.arguments_of(value), cost)

    def _match_tensor(self, name: str, args: list[ast.expr], tensor: torch.Tensor, cost: int) -> None:
        """Match a tensor with the shape that it is made with, or with the tensors inside a call."""
        if name not in _OF_SHAPE:
            for argument in args:
                if isinstance(argument, ast.Call | ast.BinOp):
                    self.match(argument, tensor, cost + 1)
            return
        if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List):
            args = args[0].elts
        if len(args) == tensor.dim():
            for argument, length in zip(args, tensor.shape, strict=True):
                self.match(argument, length, cost + 1)

    def _match_list(self, call: ast.Call, layers: Any, cost: int) -> None:
        """Match a list of layers that is written out, or as a comprehension."""
        parts = call.args
        if len(parts) == 1 and isinstance(parts[0], ast.List | ast.Tuple):
            parts = parts[0].elts
        inside = (
            parts[0].value if len(parts) == 1 and isinstance(parts[0], ast.Starred) else parts[0] if parts else None
        )
        if isinstance(inside, ast.ListComp | ast.GeneratorExp):
            match inside.generators:
                case [ast.comprehension(target=ast.Name(id=each), iter=ast.Name(id=name))] if name in self.parameters:
                    for place, layer in enumerate(layers):
                        self.match(with_item(inside.elt, each, name, place), layer, cost)
                    return
            if len(layers):
                self.match(inside.elt, layers[0], cost)
            match inside.generators:
                case [ast.comprehension(iter=ast.Call(func=ast.Name(id="range"), args=[length]), ifs=[])]:
                    self.match(length, len(layers), cost)
            return
        for part, layer in zip(parts, layers, strict=False):
            if isinstance(part, ast.Starred):
                return
            self.match(part, layer, cost)

    def match_call(
        self, call: ast.Call, parameters: Mapping[str, inspect.Parameter], found: Candidates, cost: int
    ) -> None:
        """Match a call's argument expressions with the candidates for the called function's parameters."""
        for name, argument in arguments(call, parameters):
            for candidate in found.get(name, ()):
                self.match(argument, candidate.value, cost + candidate.cost + 1)

    def _called_function(self, function: ast.expr) -> Any:
        """Look up the function that an expression names: in the closure, the globals or the module; else `MISSING`."""
        code = self._function
        match function:
            case ast.Name(id=name) if name not in self.parameters and name not in self._locals:
                cells = dict(zip(code.__code__.co_freevars, code.__closure__ or (), strict=True))
                if name in cells:
                    return cells[name].cell_contents
                return code.__globals__.get(name, None)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                static = inspect.getattr_static(type(self._module), name, None)
                return static.__func__ if isinstance(static, staticmethod | classmethod) else static
            case ast.Attribute(value=ast.Name(id=name), attr=inner) if name not in self.parameters:
                holder = code.__globals__.get(name)
                return vars(holder).get(inner) if isinstance(holder, ModuleType) else None
        return MISSING

    def add(self, name: str, value: Any, cost: int) -> None:
        """Record a candidate for a parameter."""
        parameter = self.parameters.get(name)
        if parameter is None or value is MISSING:
            return
        found = self._found[name]
        if is_switch(parameter) and (value is None or isinstance(value, torch.Tensor | torch.nn.Module)):
            found.append(ArgumentCandidate(cost, value is not None))
        if not is_plain(value) or (parameter.kind is parameter.VAR_POSITIONAL and not isinstance(value, tuple | list)):
            return
        if parameter.kind is parameter.VAR_KEYWORD and not isinstance(value, dict):
            return
        is_one = isinstance(value, tuple) and len(value) > 0 and all(item == value[0] for item in value)
        if is_one and isinstance(value[0], int):  # torch stores a size for each axis
            wants_one = cost > 0 or isinstance(parameter.default, int) or parameter.annotation in (int, "int")
            found.append(ArgumentCandidate(cost + (not wants_one), value[0]))
            cost += wants_one
        if isinstance(value, int) and isinstance(parameter.default, float):
            found.append(ArgumentCandidate(cost, float(value)))
        found.append(ArgumentCandidate(cost, value))
