"""Resolve an expression of the source, in the frame that executes it, to its value and the value's origin.

Variables and attributes are looked up and arithmetic is evaluated; of the user's functions, only purely numeric ones
are called.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from functools import partial, reduce
from types import FrameType, FunctionType
from typing import Any

import torch

from port.translation.frontend.origins.arithmetic import called, combined, is_number, signed
from port.translation.frontend.origins.bindings import (
    AssignedBinding,
    AugmentedBinding,
    Binding,
    Bindings,
    ItemBinding,
    LoopBinding,
    ParameterBinding,
    bound_names,
)
from port.translation.frontend.origins.call_arguments import call_arguments
from port.translation.frontend.origins.condition_values import compared, is_instance, truth
from port.translation.frontend.origins.executing import Executing, ProgramPoint, SourceFile, SourceFiles
from port.translation.frontend.origins.frame_objects import MISSING, ModulePaths, attribute, variable
from port.translation.frontend.origins.frame_parameters import FrameParameters, twin_of
from port.translation.frontend.origins.number_functions import of_comprehension, of_numbers
from port.translation.frontend.origins.resolved import Resolved, ShapeOf
from port.translation.frontend.source_locations import is_users
from port.translation.ir.number import is_same
from port.translation.ir.origin import AttributeOf, LiteralAt
from port.translation.ir.source_location import SourceLocation

_DEEPEST = 80
"""How deeply nested expressions and calls are followed."""
_MOST = 4000
"""The most expressions that are resolved for one call: interdependent conditions are resolved again and again."""
_LONGEST = 60
"""The longest expression for a tensor, in characters, that is used in an origin."""
_Lookup = tuple[str, FrameType, ast.AST, ast.AST]
"""The lookup of a variable: its name, its frame, where it is read, and where the frame is."""


class NumberOrigins:
    """Finds the origins of numbers while a module runs.

    Args:
        root: the running module.

    Attributes:
        remembers: whether each variable is looked up only once per call. Otherwise a variable whose lookup was cut
            short is looked up again: another path may find it.
    """

    def __init__(self, root: torch.nn.Module) -> None:
        self.remembers = False
        self.files, self.paths = SourceFiles(), ModulePaths(root)
        self.parameters = FrameParameters(self.files, self.resolve)
        self._bindings: dict[ast.AST, Bindings] = {}
        self._globals: dict[tuple[SourceFile, str], list[ast.AST | None]] = {}
        self._variables: dict[_Lookup, Resolved] = {}
        self._pending: set[_Lookup] = set()
        self._rounds: dict[tuple[FrameType, str], int] = {}  # values of comprehension variables being resolved
        self._depth = self._count = self._cut = 0

    def forget(self) -> None:
        """Drop the caches after a call, before frames continue and they go stale."""
        self.parameters.forget()
        self._variables.clear()
        self._count = 0

    @property
    def has_given_up(self) -> bool:
        """Whether a call needed more expressions than `_MOST`."""
        return self._count > _MOST

    def resolve(self, node: ast.expr, point: ProgramPoint) -> Resolved:
        """Resolve an expression.

        Args:
            node: the expression.
            point: its position.
        """
        self._depth, self._count = self._depth + 1, self._count + 1
        try:
            if self._depth > _DEEPEST or self._count > _MOST:
                self._cut += 1
                return Resolved()
            return self._resolved(node, point)
        finally:
            self._depth -= 1

    def _resolved(self, node: ast.expr, point: ProgramPoint) -> Resolved:
        match node:
            case ast.Constant(value):
                return Resolved(value, self._literal(value, node, point) if is_number(value) else None)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return Resolved(-value, self._literal(-value, node, point))
            case ast.UnaryOp(ast.Not(), operand):
                known = truth(self.resolve(operand, point))
                return Resolved() if known is None else Resolved(not known)
            case ast.UnaryOp(kind, operand):
                return signed(kind, self.resolve(operand, point))
            case ast.BinOp(left, kind, right):
                return combined(kind, self.resolve(left, point), self.resolve(right, point))
            case ast.Name(name):
                return self.variable(name, point)
            case ast.Attribute(value, name):
                return self._attribute(value, name, point)
            case ast.Subscript(value, key):
                return self._item(self.resolve(value, point), key, point)
            case ast.Tuple(items) | ast.List(items):
                unpacked = call_arguments(ast.Call(node, items, []), lambda item: self.resolve(item, point))
                if unpacked.are_all_positional:
                    return Resolved(items=tuple(item() for item in unpacked.positional))
                return Resolved(last=tuple(item() for item in unpacked.last))
            case ast.ListComp():
                return of_comprehension(node, lambda item, numbers: self._of_a_round(item, numbers, point))
            case ast.IfExp(test, one, other):
                held = self.held(test, point)
                return Resolved() if held is None else self.resolve(one if held else other, point)
            case ast.BoolOp(kind, operands):
                return self._first(isinstance(kind, ast.Or), operands, point)
            case ast.Compare(left, (kind,), (right,)):
                return Resolved(compared(kind, self.resolve(left, point).value, self.resolve(right, point).value))
            case ast.Call():
                return self._call(node, point)
        return Resolved()

    def _of_a_round(self, node: ast.expr, numbers: Mapping[str, int], point: ProgramPoint) -> Resolved:
        """Resolve an expression in one iteration of a comprehension."""
        before = self._rounds
        self._rounds = before | {(point.here.frame, name): number for name, number in numbers.items()}
        try:
            return self.resolve(node, point)
        finally:
            self._rounds = before

    def held(self, test: ast.expr, point: ProgramPoint) -> bool | None:
        """Evaluate a condition at a point; None where its truth is not known."""
        return truth(self.resolve(test, point))

    def _literal(self, value: Any, node: ast.expr, point: ProgramPoint) -> LiteralAt:
        return LiteralAt(value, SourceLocation(point.here.file.name, node.lineno), node.col_offset)

    def _first(self, wanted: bool, operands: list[ast.expr], point: ProgramPoint) -> Resolved:
        for operand in operands:
            found = self.resolve(operand, point)
            known = truth(found)
            if known is None:
                return Resolved()
            if known is wanted:
                return found
        return found

    # %% Attributes, items, lengths

    def _attribute(self, value: ast.expr, name: str, point: ProgramPoint) -> Resolved:
        of = self.resolve(value, point)
        if name == "shape" and (isinstance(of.value, torch.Tensor) or of.value is MISSING):
            return self._shape(value, of, point)
        held = attribute(of.value, name)
        path = self.paths.of(of.value)
        if path is not None:
            return Resolved(held, AttributeOf(path, name))
        if isinstance(of.origin, AttributeOf) and of.value is not MISSING:
            return Resolved(held, AttributeOf(of.origin.path, f"{of.origin.attribute}.{name}"))
        if of.value is math and is_number(held):
            return Resolved(held, self._literal(held, value, point))  # math.pi
        return Resolved(held)

    def _shape(self, tensor: ast.expr, of: Resolved, point: ProgramPoint) -> Resolved:
        text = ast.unparse(tensor)
        if len(text) > _LONGEST or not isinstance(tensor, ast.Name | ast.Attribute):
            return Resolved()
        shape = ShapeOf(text, SourceLocation(point.here.file.name, tensor.lineno))
        return Resolved(tuple(of.value.shape) if isinstance(of.value, torch.Tensor) else MISSING, shape=shape)

    def _item(self, of: Resolved, key: ast.expr, point: ProgramPoint) -> Resolved:
        if not isinstance(key, ast.Slice):
            return of.item(self.resolve(key, point).value)
        items = of.each_item()
        ends = [None if end is None else self.resolve(end, point).value for end in (key.lower, key.upper, key.step)]
        if items is None or any(end is not None and type(end) is not int for end in ends) or ends[2] == 0:
            return Resolved()
        return Resolved(items=items[slice(*ends)])

    def _call(self, node: ast.Call, point: ProgramPoint) -> Resolved:
        arguments = [self.resolve(each, point) for each in node.args if not isinstance(each, ast.Starred)]
        if node.keywords or len(arguments) < len(node.args):
            return Resolved()
        match node.func, arguments:
            case ast.Attribute(tensor, "size"), [] | [_]:
                of = self.resolve(tensor, point)
                if not isinstance(of.value, torch.Tensor) and of.value is not MISSING:
                    return Resolved()
                shape = self._shape(tensor, of, point)
                return shape.item(arguments[0].value) if arguments else shape
            case ast.Attribute(tensor, "numel"), []:
                lengths = self._shape(tensor, self.resolve(tensor, point), point).each_item()
                return reduce(partial(combined, ast.Mult()), lengths) if lengths else Resolved()
            case ast.Attribute(copied, "copy"), []:
                return Resolved(items=self.resolve(copied, point).each_item())
            case (ast.Name() | ast.Attribute(ast.Name())) as function, _:
                known = self.resolve(function, point).value
                if (known is tuple or known is list) and len(arguments) == 1:
                    return Resolved(items=arguments[0].each_item())
                if known is float and [type(each.value) for each in arguments] == [str]:
                    return self._infinite(node, arguments[0].value, point)
                if known is isinstance and len(arguments) == 2:
                    return Resolved(is_instance(*arguments))
                return of_numbers(known, arguments) if isinstance(known, FunctionType) else called(known, arguments)
        return Resolved()

    def _infinite(self, node: ast.Call, text: str, point: ProgramPoint) -> Resolved:
        """Resolve ``float("inf")``, which serves as a literal."""
        try:
            return Resolved(float(text), self._literal(float(text), node, point))
        except ValueError:
            return Resolved()

    # %% Variables

    def variable(self, name: str, point: ProgramPoint) -> Resolved:
        """Resolve a variable that is read at a point."""
        if (point.here.frame, name) in self._rounds:
            return Resolved(self._rounds[point.here.frame, name])
        key = name, point.here.frame, point.node, point.here.node
        if key in self._variables and (self.remembers or not self._rounds):
            return self._variables[key]
        if key in self._pending:  # a condition decides a variable, and the variable the condition
            self._cut += 1
            return Resolved()
        cut = self._cut
        self._pending.add(key)
        try:
            found = self._variable(name, point)
        finally:
            self._pending.remove(key)
        if self.remembers or (self._cut == cut and not self._rounds):
            self._variables[key] = found
        return found

    def _variable(self, name: str, point: ProgramPoint) -> Resolved:
        here = point.here
        frame, code = here.frame, here.frame.f_code
        if isinstance(here.scope, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return self._of_comprehension(name, here)
        if name not in (*code.co_varnames, *code.co_cellvars):
            value = variable(frame, name)
            return Resolved(value, self._global_literal(name, value, here) if name not in code.co_freevars else None)
        if here.scope not in self._bindings:
            self._bindings[here.scope] = Bindings(here.file, here.scope)
        bindings = self._bindings[here.scope]
        binding = now = bindings.before(name, here.node, lambda test, at: self.held(test, point.at(at)))
        if point.node is not here.node:
            binding = bindings.before(name, point.node, lambda test, at: self.held(test, point.at(at)))
        # The value at an earlier point is still there if the variable has not been assigned since.
        is_there = point.node is here.node or (binding is not None and binding == now)
        value = variable(frame, name) if is_there else MISSING
        # A tensor in user code needs nothing else, and following how it was computed may take long.
        if binding is None or (isinstance(value, torch.Tensor) and is_users(here.file.name)):
            return Resolved(value)
        return self._bound(binding, point).observed_as(value)

    def _bound(self, binding: Binding, point: ProgramPoint) -> Resolved:
        match binding:
            case ParameterBinding(name):
                return self._parameter(name, point.here.frame)
            case AssignedBinding(value, items, statement):
                found = self.resolve(value, point.at(statement))
                for place in items:
                    found = found.item(place)
                return found
            case AugmentedBinding(statement):
                before = point.at(statement)
                assert isinstance(statement.target, ast.Name)
                left = self.variable(statement.target.id, before)
                return combined(statement.op, left, self.resolve(statement.value, before))
            case ItemBinding(statement, key):
                before = point.at(statement)
                (target,) = statement.targets
                assert isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
                whole = self.variable(target.value.id, before)
                return whole.with_item(self.resolve(key, before).value, self.resolve(statement.value, before))
            case LoopBinding(statement):
                assert isinstance(statement.target, ast.Name)
                now = variable(point.here.frame, statement.target.id)
                rounds = self.resolve(statement.iter, point.at(statement)).each_item() or ()
                same = [item for item in rounds if item.value is now]
                return same[0] if len(same) == 1 else Resolved()

    def _parameter(self, name: str, frame: FrameType) -> Resolved:
        argument = self.parameters.of(frame).get(name)
        found = Resolved() if argument is None else argument()
        if found.has_origin:
            return found
        twin = twin_of(frame)
        point = None if twin is None else self.files.point(twin)
        if twin is None or point is None or not _is_the_same(variable(frame, name), variable(twin, name)):
            return found
        return self.variable(name, point)

    def _of_comprehension(self, name: str, here: Executing) -> Resolved:
        value = variable(here.frame, name)
        if name in here.frame.f_code.co_varnames or isinstance(here.scope, ast.GeneratorExp):
            return Resolved(value)
        outer = None if here.frame.f_back is None else self.files.point(here.frame.f_back)
        if outer is None or outer.node is not here.scope:
            return Resolved(value)
        return self.variable(name, outer).observed_as(value)

    def _global_literal(self, name: str, value: Any, here: Executing) -> LiteralAt | None:
        """Return the origin of a global constant, if exactly one statement assigns it a literal."""
        if not is_number(value) or name not in here.frame.f_globals:
            return None
        if (here.file, name) not in self._globals:
            self._globals[here.file, name] = _stores(here.file, name)
        match self._globals[here.file, name]:
            case [ast.Assign(value=literal, targets=[ast.Name()]) | ast.AnnAssign(value=ast.expr() as literal)]:
                found = self.resolve(literal, ProgramPoint(here, literal)) if _is_literal(literal) else Resolved()
                return found.origin if is_same(found.value, value) else None  # type: ignore[return-value]
        return None


def _stores(file: SourceFile, name: str) -> list[ast.AST | None]:
    """Return the top-level statements that assign a global variable, and None for each ``global`` declaration."""
    shared = [node for node in ast.walk(file.tree) if isinstance(node, ast.Global) and name in node.names]
    return [None for _ in shared] + [each for each in file.tree.body if name in bound_names(each)]


def _is_literal(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant()):
            return True
    return False


def _is_the_same(one: Any, other: Any) -> bool:
    """Whether two variables hold the same value, as the parameters of a repeated call do."""
    if type(one) is tuple and type(other) is tuple:
        return len(one) == len(other) and all(map(_is_the_same, one, other))
    return one is not MISSING and (one is other or (is_same(one, other) and type(one) is type(other)))
