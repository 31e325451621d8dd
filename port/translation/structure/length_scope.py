"""Lengths while a body is written: their names, and the arrays from which dynamic lengths are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import combinations
from typing import Any, TypeVar

from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in, values_in
from port.translation.ir.graph import Value
from port.translation.ir.length_expr import length
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree, attribute_held
from port.translation.ir.origin import AttributeOf
from port.translation.ir.source_location import SourceLocation
from port.translation.ir.symbolic_lengths import multiple_of, same
from port.translation.structure.call_tree import Call
from port.translation.structure.length_statements import LengthStatement
from port.translation.structure.name_hints import own_name
from port.translation.structure.named_lengths import NamedLengths
from port.translation.structure.original_tensors import assigned_tensor, passed_tensor
from port.translation.structure.said_lengths import is_said, said_with_names
from port.translation.structure.unreachable import LostLength

N = TypeVar("N", bound=syntax.Node)


class LengthScope:
    """The part of a scope that handles lengths.

    Attributes:
        lengths: the lengths with names.
        assigned_at: value → first line of the original's statement that assigns its name.
        unsaid: keys of the lengths that could not be written as in the original.
    """

    call: Call
    lowered: LoweredGraph
    tree: ModuleTree
    parameters: Mapping[str, syntax.Expr]
    names: dict[str, syntax.Expr]
    bound: dict[str, str]

    def __init__(self, original: Any) -> None:
        self.lengths = NamedLengths(original)
        self.assigned_at: dict[str, int] = {}
        self.unsaid: set[str] = set()

    def name_lengths(self, place: SourceLocation | None) -> list[tuple[syntax.Stmt, SourceLocation]]:
        """Write ``B, T, C = x.shape`` where the original does so before the statement at a place, or before the end.

        Returns:
            Each statement with the line of the original that it comes from.
        """
        found: list[tuple[syntax.Stmt, SourceLocation]] = []
        for statement in self.lengths.due(place):
            called = own_name(statement.tensor)
            value = self.lowered.values.get(self.bound.get(called, ""))
            if value is None or value.shape is None or self.assigned_at.get(value.name) != statement.assigned_at:
                continue
            tensor = self._tensor(statement, value)
            if tensor is None:
                continue
            layout, array = self.lowered.layouts[tensor], self.names[value.name]
            made = self.lengths.take(statement, array, tensor, layout, value.name, lambda name: self._is_free(name, ""))
            if made is not None:
                found.append((made, statement.place))
                for name in names_in(made):
                    if name in self.lengths:
                        self._unbind(name)
        return found

    def _tensor(self, statement: LengthStatement, array: Value) -> Value | None:
        """The original's tensor whose lengths a statement reads, if a variable holds an array for it."""
        if statement.assigned_at is None:
            return passed_tensor(self.call, self.lowered, statement.tensor, array)
        place = SourceLocation(statement.place.file, statement.assigned_at)
        return assigned_tensor(self.lowered, array, place)

    def _said_length(self, node: syntax.Node) -> syntax.Node:
        """Write a length with the original's names of lengths, if these suffice."""
        match node:
            case syntax.Const() if node.origin is not None:
                named = said_with_names(node.origin)
                return node if named is None else self._with_names(named)
            case syntax.SaidLength(said, otherwise, key):
                made = self._said_free(said) if isinstance(said, syntax.Use) else said
                if made is not None and is_said(made):
                    return made
                if not values_in(otherwise):
                    return node if isinstance(said, syntax.Const) else otherwise
                self.unsaid.add(key)
                return otherwise
        return node

    def _said_free(self, node: syntax.Use) -> syntax.Expr | None:
        value = self.lowered.values.get(node.name)
        named = None if value is None or value.shape is not None else self.lengths.of_formula(value.length)
        return None if named is None else self._with_names(named)

    def _with_names(self, expression: N) -> N:
        """Mark the lengths that an expression names as read."""
        for name in names_in(expression):
            array = self.lengths.array_of(name)
            if array is not None:
                self._note_parameter(array)
        return expression

    def _held(self, origin: AttributeOf) -> Any:
        return attribute_held(self.tree.modules.get(origin.path), origin.attribute)

    def _length(self, value: Value) -> syntax.Expr:
        own = {expression.id for expression in self.parameters.values() if isinstance(expression, syntax.Name)}
        arrays = [(name, self.lowered.values[name]) for name in self.names if name in self.lowered.values]
        # Arrays named like parameters come first: they exist from the beginning.
        arrays.sort(key=lambda array: getattr(self.names[array[0]], "id", "") not in own)

        def axis(name: str, array: Value, number: int) -> syntax.Expr:
            self._note_parameter(name)
            return code("x.shape[k]", x=self.names[name], k=self.lowered.layouts[array].axis(number))

        def read(formula: str) -> syntax.Expr | None:
            named = self.lengths.of_product(formula)
            if named is not None:
                return self._with_names(named)
            for name, array in arrays:
                if array.shape is None and same(array.length, formula):
                    self._note_parameter(name)
                    return self.names[name]
                for number, size in enumerate(array.shape or ()):
                    if isinstance(size, str) and same(size, formula):
                        return axis(name, array, number)
            return None if formula.isidentifier() else product(formula)

        def product(formula: str) -> syntax.Expr | None:
            """Write the length as a product of consecutive axes, for axes that were flattened into one."""
            for name, array in arrays:
                for first, last in combinations(range(array.rank + 1), 2):
                    parts = (array.shape or ())[first:last]
                    factor = multiple_of(formula, parts) if any(isinstance(part, str) for part in parts) else None
                    if factor is not None:
                        lengths = [axis(name, array, number) for number in range(first, last)]
                        made = reduce(lambda one, other: syntax.BinOp(one, "*", other), lengths)
                        return made if factor == 1 else syntax.BinOp(made, "*", syntax.Const(factor))
            return None

        made = self.lengths.of_product(value.length)
        made = length(value.length, read) if made is None else self._with_names(made)
        if made is None:
            raise LostLength(self.call.key, f"needs the length {value.length}", value.length)
        return made

    def _note_parameter(self, name: str) -> None:
        raise NotImplementedError

    def _is_free(self, name: str | None, value: str) -> bool:
        raise NotImplementedError

    def _unbind(self, name: str, value: str = "") -> None:
        raise NotImplementedError
