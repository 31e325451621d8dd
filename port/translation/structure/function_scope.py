"""Names inside one of the original's functions: its arguments, numbers included, are read as its parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, literal, names_in
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.number import is_same
from port.translation.ir.origin import (
    AttributeOf,
    ConstructorArgument,
    LengthOf,
    LiteralAt,
    NamedLength,
    Origin,
    ParameterOf,
    ShapeRead,
    WorkedOut,
)
from port.translation.ir.origin_expression import expression_of, leaves_of, read_length
from port.translation.ir.origin_numbers import origin_of, plain
from port.translation.structure.call_tree import Call
from port.translation.structure.original_tensors import held_tensor
from port.translation.structure.scope import Scope
from port.translation.structure.unreachable import Unreachable

Path = tuple[Any, ...]


class FunctionScope(Scope):
    """Names while the body of a function is written.

    A number that an argument also holds, and that has the same origin, is written as that parameter. A number that only
    the caller's module holds cannot be written.
    """

    def __init__(self, call: Call, lowered: LoweredGraph, tree: ModuleTree, functions: Collection[str] = ()) -> None:
        super().__init__(call, lowered, tree, functions)
        self.passed: dict[Origin, ParameterOf] = {}
        self.held: dict[syntax.Expr, str] = {}
        for name, expression in self.parameters.items():
            argument = call.parameters[name.lstrip("*")]
            for path, leaf in each_leaf(argument):
                self._take(leaf, syntax.source(at(expression, path)))

    def _take(self, leaf: Any, parameter: str) -> None:
        """Record one leaf of an argument."""
        origin = origin_of(leaf)
        if origin is not None:
            self.passed.setdefault(origin, ParameterOf(parameter, plain(leaf)))
        elif isinstance(leaf, syntax.Expr) and not isinstance(leaf, syntax.Use | syntax.Const):
            self.held.setdefault(leaf, parameter)

    def resolved(self, expression: syntax.Expr) -> syntax.Expr:
        """Resolve an expression with the current names of its values and numbers."""
        known = syntax.transformed(expression, self._as_parameter)
        return syntax.transformed(syntax.transformed(super().resolved(known), _settled), self._said)

    def _name_of(self, node: syntax.Use | syntax.Attr) -> syntax.Expr:
        """The name of a value or an attribute.

        Raises:
            Unreachable: it is the module's, which the function does not get: its random streams, which a draw takes.
        """
        found = super()._name_of(node)
        if "self" in names_in(found) and "self" not in self.parameters:
            raise Unreachable(self.call.key, f"reads the module's {syntax.source(found)}")
        return found

    def _as_parameter(self, node: syntax.Node) -> syntax.Node:
        if isinstance(node, syntax.Const) and node.origin is not None:
            return replace(node, origin=self._with_parameters(node.origin, node.value))
        if isinstance(node, syntax.Expr) and node in self.held:
            return self._read(self.held[node])
        return node

    def _with_parameters(self, origin: Origin, value: Any = None) -> Origin:
        """An origin in which an argument's number is replaced by the parameter."""
        known = self.passed.get(origin)
        if known is not None and (value is None or is_same(known.value, value)):
            return known
        if isinstance(origin, WorkedOut):
            return WorkedOut(origin.function, tuple(map(self._with_parameters, origin.operands)))
        return origin

    def _said(self, node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.UnaryOp("-", syntax.UnaryOp("-", operand)):
                return operand
            case syntax.Const() if node.origin is not None:
                return self._number(node, node.origin)
        return node

    def _number(self, node: syntax.Const, origin: Origin) -> syntax.Expr:
        """Write a number in the function's terms.

        Raises:
            Unreachable: the number belongs to the module, and no argument holds it.
        """
        leaves = list(leaves_of(origin))
        if any(isinstance(each, LiteralAt) and each.location is None for each in leaves):
            return node  # a rule's own number: a length that it used
        if any(map(_is_of_a_module, leaves)):
            raise Unreachable(self.call.path, f"has a number of the module's: {node.value}")
        if not any(isinstance(each, ParameterOf | ShapeRead | NamedLength) for each in leaves):
            return node
        made = expression_of(origin, self._leaf)
        return node if made is None else made

    def _leaf(self, origin: Origin) -> syntax.Expr | None:
        match origin:
            case ParameterOf(parameter):
                return self._read(parameter)
            case ShapeRead(variable, axis):
                self._need(variable)
                return code(f"{variable}.shape[{axis}]")
            case NamedLength():
                return self._with_names(read_length(origin))
        return None

    def _read(self, parameter: str) -> syntax.Expr:
        """Read a parameter, and mark it as used."""
        expression = code(parameter)
        for name in names_in(expression):
            self._need(name)
        return expression

    def _need(self, variable: str) -> None:
        """Mark the parameter with this name as used."""
        self.used_parameters += [
            name
            for name, own in self.parameters.items()
            if _is_called(own, variable) and name not in self.used_parameters
        ]

    def _array_called(self, variable: str) -> tuple[Value, Layout] | None:
        """The array that a variable holds; the original passes all parameters to a function, read or not."""
        value = self.lowered.values.get(self.bound.get(variable, ""))
        if variable not in self.bound and variable not in self.lengths:
            parameter = next((name for name, own in self.parameters.items() if _is_called(own, variable)), None)
            value = None if parameter is None else held_tensor(self.call, self.lowered, parameter.lstrip("*"))
        return None if value is None or value.shape is None else (value, self.lowered.layouts[value])


def _is_called(expression: syntax.Expr, name: str) -> bool:
    """Whether an expression is the variable of that name; an attribute such as ``self.weight`` is not."""
    return isinstance(expression, syntax.Name) and expression.id == name


class MethodScope(FunctionScope):
    """Names while the body of a method, or of a nested module, is written.

    A number that only the module holds is written as the module's attribute.
    """

    def _name_of(self, node: syntax.Use | syntax.Attr) -> syntax.Expr:
        return Scope._name_of(self, node)

    def resolved(self, expression: syntax.Expr) -> syntax.Expr:
        """Resolve an expression with the current names of its values and the parameters' numbers."""
        known = syntax.transformed(expression, self._as_parameter)
        return syntax.transformed(Scope.resolved(self, known), self._said)

    def _number(self, node: syntax.Const, origin: Origin) -> syntax.Expr:
        """Write a number in the method's terms, if it derives from arguments and their lengths only."""
        leaves = list(leaves_of(origin))
        for each in leaves:
            if isinstance(each, ShapeRead):
                self._need(each.variable)
        return node if any(map(_is_of_a_module, leaves)) else super()._number(node, origin)


def _settled(node: syntax.Node) -> syntax.Node:
    """Choose the form of a length that can be written in two ways: through the parameters, if possible."""
    match node:
        case syntax.SaidLength(syntax.Const() as number, otherwise):
            leaves = [] if number.origin is None else list(leaves_of(number.origin))
            return otherwise if any(isinstance(each, LengthOf) or _is_of_a_module(each) for each in leaves) else number
    return node


def _is_of_a_module(origin: Origin) -> bool:
    match origin:
        case AttributeOf() | ConstructorArgument():
            return True
        case LengthOf(tensor):
            return tensor.startswith("self.")
    return False


def each_leaf(argument: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the numbers and expressions in an argument, each with the keys that lead to it."""
    match argument:
        case dict():
            for key, item in argument.items():
                yield from each_leaf(item, (*path, key))
        case tuple() | list():
            for number, item in enumerate(argument):
                yield from each_leaf(item, (*path, number))
        case _:
            yield path, argument


def at(expression: syntax.Expr, path: Path) -> syntax.Expr:
    """A part of an expression: ``sizes[0]``."""
    for key in path:
        expression = syntax.Subscript(expression, literal(key))
    return expression
