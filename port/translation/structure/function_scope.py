"""The names within a function of the original's: what it is given, numbers too, is called by its parameters."""

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
    """The names, while the body of a function is written.

    A number that an argument has as well, from the same place, is written as the parameter. One that only the caller's
    module holds cannot be written.
    """

    def __init__(self, call: Call, lowered: LoweredGraph, tree: ModuleTree, functions: Collection[str] = ()) -> None:
        super().__init__(call, lowered, tree, functions)
        self.given: dict[Origin, ParameterOf] = {}
        self.held: dict[syntax.Expr, str] = {}
        for name, expression in self.parameters.items():
            argument = call.parameters[name.lstrip("*")]
            for path, leaf in each_leaf(argument):
                self._take(leaf, syntax.source(at(expression, path)))

    def _take(self, leaf: Any, parameter: str) -> None:
        """Note down a leaf of what a parameter is given."""
        origin = origin_of(leaf)
        if origin is not None:
            self.given.setdefault(origin, ParameterOf(parameter, plain(leaf)))
        elif isinstance(leaf, syntax.Expr) and not isinstance(leaf, syntax.Use | syntax.Const):
            self.held.setdefault(leaf, parameter)

    def resolved(self, expression: syntax.Expr) -> syntax.Expr:
        """An expression with the names that the values have at this moment, the numbers' too."""
        known = syntax.transformed(expression, self._given)
        return syntax.transformed(syntax.transformed(super().resolved(known), _settled), self._said)

    def _given(self, node: syntax.Node) -> syntax.Node:
        if isinstance(node, syntax.Const) and node.origin is not None:
            return replace(node, origin=self._with_parameters(node.origin, node.value))
        if isinstance(node, syntax.Expr) and node in self.held:
            return self._read(self.held[node])
        return node

    def _with_parameters(self, origin: Origin, value: Any = None) -> Origin:
        """An origin in which what an argument has is the parameter's."""
        known = self.given.get(origin)
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
        """A number as the function says it.

        Raises:
            Unreachable: it is the module's, and no argument.
        """
        leaves = list(leaves_of(origin))
        if any(isinstance(each, LiteralAt) and each.location is None for each in leaves):
            return node  # a rule's own: a length that it has worked with
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
        """What a parameter holds; it is needed then."""
        expression = code(parameter)
        for name in names_in(expression):
            self._need(name)
        return expression

    def _need(self, variable: str) -> None:
        """Take note of the parameter that is called so."""
        self.used_parameters += [
            name
            for name, own in self.parameters.items()
            if _is_called(own, variable) and name not in self.used_parameters
        ]

    def _array_called(self, variable: str) -> tuple[Value, Layout] | None:
        """The array that a variable holds: the original gives a function all its parameters, read or not."""
        value = self.lowered.values.get(self.bound.get(variable, ""))
        if variable not in self.bound and variable not in self.lengths:
            parameter = next((name for name, own in self.parameters.items() if _is_called(own, variable)), None)
            value = None if parameter is None else held_tensor(self.call, self.lowered, parameter.lstrip("*"))
        return None if value is None or value.shape is None else (value, self.lowered.layouts[value])


def _is_called(expression: syntax.Expr, name: str) -> bool:
    """Whether an expression is a variable of that name; an attribute, as ``self.weight`` of a length, is none."""
    return isinstance(expression, syntax.Name) and expression.id == name


class MethodScope(FunctionScope):
    """The names, while the body of a method, or of a module within, is written.

    A number that only the module holds is written as there.
    """

    def resolved(self, expression: syntax.Expr) -> syntax.Expr:
        """An expression with the names that the values have at this moment, the parameters' numbers too."""
        known = syntax.transformed(expression, self._given)
        return syntax.transformed(Scope.resolved(self, known), self._said)

    def _number(self, node: syntax.Const, origin: Origin) -> syntax.Expr:
        """A number as the method says it, if it is an argument's or a length of one, or worked out from such alone."""
        leaves = list(leaves_of(origin))
        for each in leaves:
            if isinstance(each, ShapeRead):
                self._need(each.variable)
        return node if any(map(_is_of_a_module, leaves)) else super()._number(node, origin)


def _settled(node: syntax.Node) -> syntax.Node:
    """A length that can be said in two ways, as the parameters say it if they can."""
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
    """What stands in an argument, numbers and expressions, each with the way to it."""
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
    """``sizes[0]``: a part of what an expression holds."""
    for key in path:
        expression = syntax.Subscript(expression, literal(key))
    return expression
