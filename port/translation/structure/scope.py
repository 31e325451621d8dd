"""Names of a body's values at each of its statements, and access paths to what its module holds."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Collection
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import literal, names_in, renamed, values_in
from port.translation.ir.graph import Value, each_value
from port.translation.ir.layout import Layout
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.new_axes import with_bracketed_axes
from port.translation.ir.simplify import merged_subscripts, with_plain_axes, with_whole_lists
from port.translation.structure.call_tree import Call
from port.translation.structure.inline_dce import Made
from port.translation.structure.length_scope import LengthScope
from port.translation.structure.name_hints import is_reserved, own_name, plain_name
from port.translation.structure.shapes_read import with_shapes_read
from port.translation.structure.shorter_shapes import with_whole_shapes
from port.translation.structure.tree_items import is_called, is_item_of, item_taken
from port.translation.structure.unreachable import Unreachable


class Scope(LengthScope):
    """The names of values while a body is written from top to bottom.

    Attributes:
        parameters: the function's parameters, with their stars → their expressions.
        used_parameters: those that were read so far.
        number: the number of the current statement.
        last_use: value → number of the last statement that reads it.
    """

    def __init__(self, call: Call, lowered: LoweredGraph, tree: ModuleTree, functions: Collection[str] = ()) -> None:
        self.call, self.lowered, self.tree = call, lowered, tree
        super().__init__(self._original())
        self.functions = frozenset(functions)  # names of the source's functions, which no variable may hide
        self.names: dict[str, syntax.Expr] = {}  # value → its current name
        self.bound: dict[str, str] = {}  # a variable → the value that it holds
        self.last_use: dict[str, int] = {}
        self.used_parameters: list[str] = []
        self.parameter_of: dict[str, str] = {}
        self.parameters = self._parameters()
        self.number = 0
        self.keeping_lengths = False
        self.outside: set[str] = set()  # values of the enclosing function
        self.kept: set[str] = set()  # variables of that function that this one reads
        self.read_outside: set[str] = set()

    def function(self, kept: set[str]) -> Scope:
        """The scope of a nested function that reads some of this function's variables.

        Args:
            kept: variables that the nested function does not assign.
        """
        inner = copy.copy(self)
        inner.names, inner.bound, inner.last_use = dict(self.names), dict(self.bound), {}
        inner.outside = set(self.names)
        inner.kept = set(self.bound) if self.keeping_lengths else set(kept)
        inner.kept |= {*self.lengths}
        inner.lengths = self.lengths.copied()
        inner.read_outside = set()
        inner.number = -1
        return inner

    def called(self, wanted: str, value: str) -> syntax.Name:
        """Bind a value or function to a variable with the wanted name, numbered if that is taken."""
        name, count = wanted, 2
        while not self._is_free(name, value):
            name, count = f"{wanted}{count}", count + 1
        self._bind(name, value)
        self.last_use.setdefault(value, self.number + 1)
        return syntax.Name(name)

    def count_uses(self, made: list[Made], ends: list[str], *, keeping_lengths: bool = False) -> None:
        """Record the last use of every value.

        Args:
            made: the statements.
            ends: the values that the results are computed from.
            keeping_lengths: whether reading a length also counts as a use of the first array that has it.
        """
        self.keeping_lengths = self.keeping_lengths or keeping_lengths
        read = [(number, name) for number, item in enumerate(made) for name in item.reads]
        arrays = [self.lowered.values[name] for name in self.names if name in self.lowered.values]
        arrays += [value for item in made for value in each_value(item.results)]
        for number, name in [*read, *((len(made), name) for name in ends)]:
            self.last_use[name] = number
            value = self.lowered.values.get(name)
            if self.keeping_lengths and value is not None and value.shape is None:
                for symbol in set(re.findall(r"[A-Za-z_]\w*", str(value.length))):
                    shown = next((array.name for array in arrays if symbol in (array.shape or ())), None)
                    if shown is not None:
                        self.last_use[shown] = number

    def _parameters(self) -> dict[str, syntax.Expr]:
        """The parameters, which are the names of the values passed for them."""
        signature = inspect.signature(self._original())
        found: dict[str, syntax.Expr] = {}
        for name, value in self.call.parameters.items():
            kind = signature.parameters[name].kind if name in signature.parameters else None
            stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(kind, "")  # type: ignore[call-overload]
            own = own_name(name)
            self._bind_tree(f"{stars}{name}", syntax.Name(own), value)
            found[f"{stars}{name}"] = syntax.Name(own)
        return found

    def _original(self) -> Any:
        """The original's function to which the parameters belong."""
        return self.call.function

    def _bind_tree(self, parameter: str, expression: syntax.Expr, value: Any) -> None:
        match value:
            case syntax.Use(name):
                if name not in self.names and name in self.lowered.values:
                    self.names[name] = expression
                    self.parameter_of[name] = parameter
                    if isinstance(expression, syntax.Name):
                        self.bound[expression.id] = name
            case dict():
                for key, item in value.items():
                    self._bind_tree(parameter, syntax.Subscript(expression, literal(key)), item)
            case tuple() | list():
                for number, item in enumerate(value):
                    self._bind_tree(parameter, syntax.Subscript(expression, syntax.Const(number)), item)

    def resolved(self, expression: syntax.Expr) -> syntax.Expr:
        """Resolve an expression with the current names of its values."""
        known = with_shapes_read(expression, self._array_called, self.lengths.of_origin, self._held)
        said = syntax.transformed(known, self._said_length)
        shorter = with_plain_axes(merged_subscripts(with_bracketed_axes(said, self._rank)))
        shorter = with_whole_shapes(shorter, self._rank_of)
        made = syntax.transformed(renamed(shorter, self._name_of), item_taken)
        made = with_whole_shapes(made, self._rank_of, self.lengths.count_in)
        # ``*args`` is a tuple, and is passed on as a list.
        lists, tuples = (
            {
                own_name(name.lstrip("*")): len(value)
                for name, value in self.call.parameters.items()
                if isinstance(value, kind)
            }
            for kind in (list | tuple, tuple)
        )
        return with_whole_lists(made, lists, tuples)

    def _array_called(self, variable: str) -> tuple[Value, Layout] | None:
        """The array that a variable holds, and its layout; None for a parameter that was not read yet."""
        value = self.lowered.values.get(self.bound.get(variable, ""))
        parameter = None if value is None else self.parameter_of.get(value.name)
        if value is None or value.shape is None or (parameter is not None and parameter not in self.used_parameters):
            return None
        return value, self.lowered.layouts[value]

    def _rank_of(self, array: syntax.Expr) -> int | None:
        """The number of axes of a value, a variable or a module's attribute."""
        match array:
            case syntax.Use(name):
                return self._rank(name)
            case syntax.Name(name):
                return self._rank(self.bound.get(name, ""))
            case syntax.Subscript(syntax.Attr(path, name)):
                held = getattr(self.tree.modules.get(path), name, None) if name else None
                return getattr(held, "ndim", None)
        return None

    def _rank(self, name: str) -> int | None:
        value = self.lowered.values.get(name)
        return None if value is None or value.shape is None else value.rank

    def _name_of(self, node: syntax.Use | syntax.Attr) -> syntax.Expr:
        if isinstance(node, syntax.Attr):
            reached = self.tree.reach(self.call.path, node.path, node.attribute)
            if reached is None:
                raise Unreachable(self.call.key, f"reads {node.path}")
            return reached
        name = node.name
        value = self.lowered.values.get(name)
        if value is not None and value.shape is None:
            return self._length(value)
        if name not in self.names:
            raise Unreachable(self.call.key, f"reads a value that is not passed to it: {name}")
        self._note_parameter(name)
        return self.names[name]

    def _note_parameter(self, name: str) -> None:
        if name in self.outside:
            self.read_outside |= names_in(self.names[name])
        parameter = self.parameter_of.get(name)
        if parameter is not None and parameter not in self.used_parameters:
            self.used_parameters.append(parameter)

    def aliases(self, item: Made) -> list[syntax.Stmt]:
        """Write ``identity = x`` where the original reads ``identity`` and the value's name is ``x``."""
        if item.statement is None:
            return []
        found: list[syntax.Stmt] = []
        for name in dict.fromkeys(values_in(item.expression)):
            called = self.names.get(name)
            if not isinstance(called, syntax.Name) or called.id in item.statement.names:
                continue
            other = next((a for a, of in item.statement.aliases.items() if of == called.id), None)
            if other in item.statement.names and self._is_free(other, name):
                found.append(syntax.Assign(syntax.Name(other), called))
                self._note_parameter(name)
                self._bind(other, name)
        return found

    def set_aside(self, item: Made) -> list[syntax.Stmt]:
        """Write ``residual = x`` where the original does, before ``x`` is reassigned."""
        found: list[syntax.Stmt] = []
        for value, wanted in item.names.items():
            before = self.bound.get(wanted)
            if before is None or before in self.outside or item.statement is None or value not in self.last_use:
                continue
            is_read = self.last_use.get(before, -1) > self.number and is_called(self.names.get(before), wanted)
            if not is_read or self._parts_of(wanted):
                continue
            others = (name for name, of in item.statement.aliases.items() if of == wanted)
            other = next((name for name in others if self._is_free(name, before)), None)
            if other is not None:
                found.append(syntax.Assign(syntax.Name(other), syntax.Name(wanted)))
                del self.bound[wanted]
                self._bind(other, before)
        return found

    def targets(self, item: Made) -> syntax.Expr | None:
        """The variables that receive a statement's results; None if none is read."""

        def target(tree: Any) -> syntax.Expr:
            match tree:
                case Value():
                    if tree.name not in self.last_use:
                        return syntax.Name("_")
                    wanted = item.names.get(tree.name) or self._written_into(item.expression)
                    wanted = wanted or plain_name(item.expression)
                    name = wanted
                    count = 2
                    while not self._is_free(name, tree.name):
                        name = f"{wanted}{count}"
                        count += 1
                    self._bind(name, tree.name)
                    if item.statement is not None:
                        self.assigned_at[tree.name] = item.statement.place.line
                    return syntax.Name(name)
                case tuple() | list() if any(value.name in self.last_use for value in each_value(tree)):
                    return syntax.Tuple(tuple(map(target, tree)))
                case _:
                    return syntax.Name("_")

        if not any(value.name in self.last_use for value in each_value(item.results)):
            return None
        results = item.results
        if isinstance(results, dict):
            raise Unreachable(self.call.key, "a module inside returns a dict")
        return target(results[0] if isinstance(results, tuple) and len(results) == 1 else results)

    def _written_into(self, expression: syntax.Expr) -> str:
        """The name of the array that an ``.at[…].set(…)`` updates; empty for other expressions."""
        match expression:
            case syntax.Call(syntax.Attribute(syntax.Subscript(syntax.Attribute(syntax.Use(name), "at"), _), "set")):
                called = self.names.get(name)
                return called.id if isinstance(called, syntax.Name) else ""
        return ""

    def _is_free(self, name: str | None, value: str) -> bool:
        if name is None or is_reserved(name) or name in self.kept or name in self.functions:
            return False
        if any(self.last_use.get(part, -1) > self.number for part in self._parts_of(name) if part != value):
            return False
        holder = self.bound.get(name)
        if holder is None or holder == value or holder in self.outside:
            return True
        return self.last_use.get(holder, -1) <= self.number

    def _parts_of(self, name: str) -> list[str]:
        """The values that are items of a tree in a variable."""
        return [value for value, called in self.names.items() if is_item_of(called, name)]

    def _bind(self, name: str, value: str) -> None:
        self.lengths.forget(name)
        self._unbind(name, value)
        self.bound[name] = value
        self.names[value] = syntax.Name(name)

    def _unbind(self, name: str, value: str = "") -> None:
        """Unbind a variable that is reassigned, to a value or a length."""
        for part in self._parts_of(name):
            del self.names[part]
        before = self.bound.pop(name, None)
        if before is not None and before != value and is_called(self.names.get(before), name):
            del self.names[before]
            self.outside.discard(before)
