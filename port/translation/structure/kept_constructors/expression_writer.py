"""Translate the expressions of a constructor and of the functions that it calls."""

from __future__ import annotations

import ast
import inspect
import operator
from functools import cached_property, partial
from types import FunctionType
from typing import Any, TypeVar, cast

import torch

from port.translation.ir import syntax
from port.translation.ir.expr import literal
from port.translation.structure.constructors import OPTIONS
from port.translation.structure.kept_constructors.also_written import is_own_function
from port.translation.structure.kept_constructors.call_forms import (
    Container,
    MadeFunction,
    MadeLayer,
    MadeParameter,
    Own,
)
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.known import Known, Owner
from port.translation.structure.kept_constructors.names import NOTHING
from port.translation.structure.kept_constructors.needed_statements import own_names

_PART = "_part{}_"
E = TypeVar("E", bound=syntax.Expr)


class ExpressionWriter(ast.NodeTransformer):
    """Translates the expressions of one function: rewrites its tree, with placeholders for translated expressions.

    Args:
        known: the construction.
        function: the original's function.
        definition: its tree, with numbered calls; None if its body is not written.
        owner: the class in which it is written, if it is a method.
    """

    def __init__(
        self, known: Known, function: FunctionType, definition: ast.FunctionDef | None, owner: Owner | None
    ) -> None:
        self.known, self.function, self.owner = known, function, owner
        self.parts: list[syntax.Expr] = []
        self.definition = definition
        self.own = own_names(definition) if definition is not None else set(inspect.signature(function).parameters)
        self.is_constructor = function.__name__ == "__init__"
        self.layers_for_others: dict[str, syntax.Expr] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        place = self.function, self.number_of(node)
        form = self.known.forms.of(place)
        calls = self.known.calls.calls.get(place, ())
        match form:
            case MadeLayer(unsaid):
                made = self._with_layers_given(node, self.said(unsaid))
                if self._is_name(node.func) and isinstance(made, syntax.Call):
                    name = syntax.parsed(ast.unparse(node.func))
                    made = self.known.values.called(calls[0].called, name, made)
                return self.part(self.with_options_given(made))
            case MadeFunction(unsaid):
                if not self._is_name(node.func):
                    if unsaid is None:
                        raise CannotKeep(f"{ast.unparse(node)} returns several functions")
                    return self.part(self._with_layers_given(node, self.said(unsaid)))
                if any(
                    self.known.values.function(call.module) != self.known.values.expression(call.called)
                    for call in calls
                ):
                    raise CannotKeep(f"{ast.unparse(node)} returns a function that depends on its arguments")
                return self.visit(node.func)  # type: ignore[no-any-return]
            case MadeParameter(unsaid):
                return self.part(self.with_options_given(self.said(unsaid)))
            case Container(function, is_named):
                return self._container(node, function, is_named)
            case Own(_):
                made_so = self._with_visited(node)
                made_so.keywords.append(options_given())
                return made_so
        return self._call(node)

    def _with_layers_given(self, node: ast.Call, made: syntax.Expr) -> syntax.Expr:
        """Pass on the layer that the original passes for copying: ``TransformerEncoder(layer, depth)``."""
        instead: syntax.Expr
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            match argument:
                case ast.Name(id=name) if name in self.layers_for_others:
                    instead, twin = syntax.Name(name), self.layers_for_others[name]
                case ast.Call() if self.known.forms.is_made_for_others((self.function, self.number_of(argument))):
                    instead = twin = self._layer(argument)
                case _:
                    continue
            made = _with_call(made, twin, instead)
        return made

    def _layer(self, node: ast.Call) -> syntax.Expr:
        form = self.known.forms.of((self.function, self.number_of(node)))
        assert isinstance(form, MadeLayer)
        return self.said(form.expression)

    def _partial(self, node: ast.Call) -> ast.expr | None:
        """Write ``partial(nn.LayerNorm, eps=1e-6)`` with the twin's argument names; None for other partials."""
        cls: Any = self.known.names.stands_for(node.args[0], self.function, self.own) if node.args else NOTHING
        if cls is NOTHING or not self.known.values.is_layer(cls):
            return None
        try:
            keywords = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
        except ValueError:
            raise CannotKeep(f"{ast.unparse(node)} has an argument that is not a literal") from None
        return self.part(self.known.values.expression(partial(cls, **keywords)))

    def _call(self, node: ast.Call) -> ast.expr:
        """Translate a call that constructs no module."""
        target = self.known.names.stands_for(node.func, self.function, self.own)
        if target is cast:
            return self.visit(node.args[1])  # type: ignore[no-any-return]
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="named_children"), args=[], keywords=[]):
                return ast.Call(self.part(syntax.parsed("port.nn.named_children")), [self.visit(of)], [])
        if target is partial and (made_so := self._partial(node)) is not None:
            return made_so
        if target is torch.linspace:
            node.keywords = [each for each in node.keywords if each.arg != "device"]
        is_module = isinstance(target, type) and issubclass(target, torch.nn.Module)
        if is_module or self.is_not_reached(node):
            raise CannotKeep(f"{ast.unparse(node)} made nothing in {self.function.__qualname__}")
        functions = [self._method(node), target]
        functions += [call.called for call in self.known.calls.calls.get((self.function, self.number_of(node)), ())]
        made = self._with_visited(node)
        if any(map(self.known.takes_options, functions)):
            made.keywords.append(options_given())
        return made

    def _method(self, node: ast.Call) -> FunctionType | None:
        """The method of ``self`` that is called, if any.

        Raises:
            CannotKeep: the written class cannot have it.
        """
        match node.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner is not None:
                found = inspect.getattr_static(self.owner.original, name, None)
                if isinstance(found, staticmethod):
                    self.owner.static.add(name)
                    found = found.__func__
                if isinstance(found, FunctionType) and is_own_function(found):
                    self.owner.methods[name] = found
                    return found
                if found is not None:
                    raise CannotKeep(f"{self.function.__qualname__} calls {ast.unparse(node.func)}")
        return None

    def _with_visited(self, node: ast.Call) -> ast.Call:
        return ast.Call(
            self.visit(node.func),
            [self.visit(each) for each in node.args],
            [self.visit(each) for each in node.keywords],
        )

    def _container(self, node: ast.Call, function: str, is_named: bool) -> ast.expr:
        arguments = [self.visit(argument) for argument in node.args]
        arguments = items_of(arguments, is_named=is_named)
        callee = self.part(syntax.parsed(function))
        if function == "flax.nnx.List" and not arguments:
            arguments = [ast.List([], ast.Load())]
        return ast.Call(callee, arguments, [])

    def _is_name(self, function: ast.expr) -> bool:
        """Whether the callee's name comes from the surrounding code: a parameter or an attribute."""
        return self.known.names.stands_for(function, self.function, self.own) is NOTHING

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        thing = self.known.names.stands_for(node, self.function, self.own)
        if thing is NOTHING:
            if self.owner is not None and ast.unparse(node.value) == "self":
                self._check_is_no_property(node.attr)
            return ast.Attribute(self.visit(node.value), node.attr, node.ctx)
        return self._named(node)

    def _check_is_no_property(self, name: str) -> None:
        """Check that an attribute is not a property of the original's class.

        Raises:
            CannotKeep: it is one.
        """
        assert self.owner is not None
        if isinstance(inspect.getattr_static(self.owner.original, name, None), property | cached_property):
            raise CannotKeep(f"{self.function.__qualname__} reads {name}, which is a property")

    def _named(self, node: ast.Name | ast.Attribute) -> ast.expr:
        thing = self.known.names.stands_for(node, self.function, self.own)
        if thing is NOTHING or not isinstance(node.ctx, ast.Load):
            return node
        made = self.known.names.written(node, thing, self.function, self.own)
        return node if made is None else self.part(made)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        body, orelse = (self._branch(each) for each in (node.body, node.orelse))
        return ast.IfExp(self.visit(node.test), body, orelse)

    def _branch(self, node: ast.expr) -> ast.expr:
        if any(self.is_not_reached(each) for each in ast.walk(node)):
            raise CannotKeep(f"{ast.unparse(node)} was not made in {self.function.__qualname__}")
        return self.visit(node)  # type: ignore[no-any-return]

    def is_not_reached(self, node: ast.AST) -> bool:
        """Whether a call that may create a module was never executed."""
        if not isinstance(node, ast.Call) or not hasattr(node, "number"):
            return False
        if (self.function, node.number) in self.known.calls.reached:
            return False
        thing = self.known.names.stands_for(node.func, self.function, self.own)
        if thing is NOTHING:
            match node.func:
                case ast.Attribute(value=ast.Name(id="self"), attr="register_buffer" | "register_parameter"):
                    return True
            method = self._method(node)
            return isinstance(node.func, ast.Name) or self.known.takes_options(method)
        if isinstance(thing, type):
            return issubclass(thing, torch.nn.Module | torch.nn.Parameter)
        return isinstance(thing, FunctionType) and self.known.takes_options(thing)

    def said(self, tree: E) -> E:
        """Fill an expression's holes with the translations of the original's expressions.

        Raises:
            CannotKeep: one of them cannot be translated.
        """

        def of(node: syntax.Node) -> syntax.Node:
            return self._resolved(node.name) if isinstance(node, syntax.Hole) else node

        return syntax.transformed(syntax.transformed(tree, of), _worked_out)

    def _resolved(self, text: str) -> syntax.Expr:
        """Translate an expression of the original, given as text."""
        before = len(self.parts)
        made = syntax.parsed(ast.unparse(self.visit(ast.parse(text, mode="eval").body)))
        parts = {_PART.format(number): part for number, part in enumerate(self.parts[before:], before)}
        del self.parts[before:]

        def of(node: syntax.Node) -> syntax.Node:
            return parts.get(node.id, node) if isinstance(node, syntax.Name) else node

        return syntax.transformed(made, of)

    def part(self, expression: syntax.Expr) -> ast.expr:
        self.parts.append(expression)
        return ast.Name(_PART.format(len(self.parts) - 1), ast.Load())

    def with_options_given(self, made: syntax.Expr) -> Any:
        """Read ``rngs`` and dtypes from the options that a function receives as one argument."""
        if self.is_constructor:
            return made

        def of(node: syntax.Node) -> syntax.Node:
            if isinstance(node, syntax.Name) and node.id in ("rngs", "dtype", "param_dtype"):
                self.known.add_with_options(self.function)
                return syntax.Subscript(syntax.Name(OPTIONS), syntax.Const(node.id))
            return node

        return syntax.transformed(made, of)

    @staticmethod
    def number_of(node: ast.Call) -> int:
        return getattr(node, "number", -1)


def items_of(arguments: list[ast.expr], *, is_named: bool) -> list[ast.expr]:
    """The items of a container: the values of a dict that names its modules."""
    match arguments:
        case [ast.expr() as only] if is_named and not isinstance(only, ast.Starred):
            values = ast.Call(ast.Attribute(only, "values", ast.Load()), [], [])
            return [ast.Starred(values, ast.Load())]
    return arguments


def options_given() -> ast.keyword:
    """The keyword argument that passes the options on: ``**options``."""
    return ast.keyword(None, ast.Name(OPTIONS, ast.Load()))


_WORKED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}


def _worked_out(node: syntax.Node) -> syntax.Node:
    """Evaluate arithmetic on whole numbers; drop factors and divisors of 1; take items of tuples."""
    match node:
        case syntax.Subscript(syntax.Tuple(items), syntax.Const(int() as place)) if place < len(items):
            return items[place]
        case syntax.BinOp(syntax.Const(int() as left), str() as sign, syntax.Const(int() as right)) if sign in _WORKED:
            return literal(_WORKED[sign](left, right)) if right or sign != "//" else node
        case syntax.BinOp(other, "*" | "//", syntax.Const(1)) | syntax.BinOp(syntax.Const(1), "*", other):
            return other
    return node


def _with_call(made: syntax.Expr, twin: syntax.Expr, instead: syntax.Expr) -> syntax.Expr:
    """Replace the constructions of a twin's class inside an expression."""

    def of(node: syntax.Node) -> syntax.Node:
        match node, twin:
            case syntax.Call(func), syntax.Call(other) if func == other and node is not made:
                return instead
        return node

    return syntax.transformed(made, of)
