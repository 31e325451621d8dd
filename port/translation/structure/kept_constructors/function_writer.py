"""Functions of constructors as they are written: the original's statements, with its layers' twins."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.function_trees import calls_of, definition_of
from port.translation.ir import syntax
from port.translation.structure.constructors import OPTIONS
from port.translation.structure.kept_constructors.call_forms import CallForms, Container, MadeFunction, MadeLayer, Own
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.class_values import ClassValues
from port.translation.structure.kept_constructors.method_calls import MethodCalls
from port.translation.structure.kept_constructors.names import NOTHING, Names, is_own_function
from port.translation.structure.kept_constructors.needed_statements import (
    attributes_assigned,
    blocks_of,
    own_names,
    with_needed,
)

_PART = "_part{}_"


@dataclass
class Owner:
    """The class that a function is written in.

    Attributes:
        original: class.
        attributes: of ``self`` that are needed; grows.
        modules: names of modules and tensors that the original holds.
        tensors: names of parameters and buffers → what they start as, as one of its instances says it.
        is_sequential: whether what it holds are the items of a Sequential.
        methods: that are called → their functions; grows.
    """

    original: type
    attributes: set[str]
    modules: frozenset[str] = frozenset()
    tensors: Mapping[str, syntax.Expr] = field(default_factory=dict)
    is_sequential: bool = False
    methods: dict[str, FunctionType] = field(default_factory=dict)


class FunctionWriter:
    """Writes functions.

    Args:
        calls: of the construction.
        forms: what is written for them.
        values: of classes that are handed on.
        names: of what stands outside.
    """

    def __init__(self, calls: ConstructionCalls, forms: CallForms, values: ClassValues, names: Names) -> None:
        self.calls, self.forms, self.values, self.names = calls, forms, values, names
        self._with_options: dict[FunctionType, bool] = {}

    def body(self, function: FunctionType, owner: Owner | None = None) -> syntax.Lines | None:
        """The statements of a function that are needed.

        Raises:
            CannotKeep: one of them cannot be written.
        """
        definition = definition_of(function)
        if definition is None:
            raise CannotKeep(f"the source of {function.__qualname__} cannot be read")
        own = copy.deepcopy(definition)
        for number, node in enumerate(calls_of(own)):
            node.number = number  # type: ignore[attr-defined]
        if isinstance(own.body[0], ast.Expr) and isinstance(own.body[0].value, ast.Constant):
            del own.body[0]
        if owner is not None:
            own = with_needed(own, owner.attributes, self._methods_that_make(owner))
        writing = _Writing(self, function, own, owner)
        statements = writing.block(own.body)
        if not statements:
            return None
        text = "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in statements)
        return syntax.Lines(text, tuple(writing.parts))

    def takes_options(self, function: Any) -> bool:
        """Whether a function makes modules, and so is given what these are constructed with."""
        if not isinstance(function, FunctionType) or not is_own_function(function):
            return False
        if function not in self._with_options:
            self._with_options[function] = False  # one that calls itself
            definition = definition_of(function)
            count = 0 if definition is None else len(calls_of(definition))
            self._with_options[function] = any(
                self.calls.calls.get((function, number)) for number in range(count)
            ) or any(map(self.takes_options, self._functions_called(function)))
        return self._with_options[function]

    def _functions_called(self, function: FunctionType) -> Iterable[Any]:
        definition = definition_of(function)
        for node in calls_of(definition) if definition is not None else ():
            yield self.names.stands_for(node.func, function, set())

    def _methods_that_make(self, owner: Owner) -> set[str]:
        found = set()
        for name in dir(owner.original):
            method = getattr(owner.original, name, None)
            if isinstance(method, FunctionType) and is_own_function(method) and not name.startswith("__"):
                reached = any(place[0] is method for place in self.calls.reached)
                if reached and (self.takes_options(method) or _assigns(method) & owner.attributes):
                    found.add(name)
        return found


def _assigns(function: FunctionType) -> set[str]:
    definition = definition_of(function)
    return set() if definition is None else attributes_assigned(definition)


class _Writing(ast.NodeTransformer):
    """Writes one function: its tree is changed, and places in it stand for expressions."""

    def __init__(
        self, writer: FunctionWriter, function: FunctionType, definition: ast.FunctionDef, owner: Owner | None
    ) -> None:
        self.writer, self.function, self.owner = writer, function, owner
        self.parts: list[syntax.Expr] = []
        self.own = own_names(definition)
        self.is_constructor = function.__name__ == "__init__"
        self.method_calls = MethodCalls(owner.original if owner is not None else None)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements as they are written."""
        if any(self._is_not_reached(node) for node in _outside_of_choices(statements)):
            return [self._raise()]
        made: list[ast.stmt] = []
        for statement in statements:
            made += self._statement(statement)
        return made

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.Raise() | ast.Assert():
                before = len(self.parts)
                try:
                    return [self.visit(statement)]
                except CannotKeep:
                    del self.parts[before:]
                    return []
            case ast.Import() | ast.ImportFrom():
                return []
            case ast.FunctionDef():
                raise CannotKeep(f"{self.function.__qualname__} defines a function")
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))) as call):
                return self._of_base(call)
            case ast.Expr(value=ast.Call() as call):
                return self._call_alone(call)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                return self._attribute(name, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._statement(ast.Assign([target], value))
        for block in blocks_of(statement):
            block[:] = self.block(block) or [ast.Pass()]
        for name, value in ast.iter_fields(statement):
            if name not in ("body", "orelse", "finalbody", "handlers") and isinstance(value, ast.AST):
                setattr(statement, name, self.visit(value))
            elif name == "targets":
                statement.targets = [self.visit(target) for target in value]  # type: ignore[attr-defined]
        return [statement]

    def _attribute(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """What is assigned to an attribute of ``self``."""
        owner = self.owner
        if owner is not None and owner.is_sequential and name in owner.modules:
            return [_appended(ast.Name("self", ast.Load()), self.visit(value))]
        target = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store())
        if owner is not None and name in owner.tensors:
            start = self._tensor(owner.tensors[name])
            return [ast.Assign([target], self._part(start))]
        return [ast.Assign([target], self.visit(value))]

    def _tensor(self, start: syntax.Expr) -> syntax.Expr:
        made = start
        for place in {place for place in self.writer.calls.reached if place[0] is self.function}:
            made = self.writer.forms.said(place, made)
        return self._with_random_streams(made)

    def _call_alone(self, call: ast.Call) -> list[ast.stmt]:
        """A call that stands for what it does."""
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer" | "register_parameter"),
                args=[ast.Constant(value=str(name)), *rest],
            ):
                return self._attribute(name, rest[0]) if rest else []
            case (
                ast.Call(func=ast.Attribute(value=base, attr="add_module"), args=[name, value])
                | ast.Call(func=ast.Name(id="setattr"), args=[base, name, value])
            ):
                kind = self.method_calls.kind(base, self.writer.calls, (self.function, self._number(call)))
                if kind is not None and issubclass(kind, torch.nn.Sequential):
                    return [_appended(self.visit(base), self.visit(value))]
                parts: list[ast.expr] = [self.visit(base), self.visit(name), self.visit(value)]
                return [ast.Expr(ast.Call(ast.Name("setattr", ast.Load()), parts, []))]
        return [ast.Expr(self.visit(call))]

    def _of_base(self, call: ast.Call) -> list[ast.stmt]:
        """``super().__init__(…)``."""
        assert self.owner is not None and isinstance(call.func, ast.Attribute)
        base = base_of(self.owner.original, self.function)
        if call.func.attr != "__init__":
            raise CannotKeep(f"{self.function.__qualname__} calls {ast.unparse(call.func)}")
        if base is torch.nn.Module or (not call.args and not call.keywords and not self.owner.is_sequential):
            return []
        arguments = [self.visit(argument) for argument in call.args]
        keywords = [self.visit(keyword) for keyword in call.keywords]
        if base is not torch.nn.Sequential:
            self.writer.names.found.modules[base] = None
            keywords.append(_options())
        return [ast.Expr(ast.Call(call.func, arguments, keywords))]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        place = self.function, self._number(node)
        form = self.writer.forms.of(place)
        called = self.writer.calls.calls[place][0].called if form is not None else None
        match form:
            case MadeLayer(made):
                return self._part(self._with_random_streams(self._by_its_name(node, called, made)))
            case MadeFunction(made):
                if self._is_name(node.func):
                    return self.visit(node.func)  # type: ignore[no-any-return]
                return self._part(made)
            case Container(function, is_named):
                return self._container(node, function, is_named)
            case Own(_):
                made_so = self._with_visited(node)
                made_so.keywords.append(_options())
                return made_so
        return self._call(node)

    def _partial(self, node: ast.Call) -> ast.expr | None:
        """``partial(nn.LayerNorm, eps=1e-6)`` with the names that the twin has; None for a partial of other things."""
        cls: Any = self.writer.names.stands_for(node.args[0], self.function, self.own) if node.args else NOTHING
        if cls is NOTHING or not self.writer.values.is_layer(cls):
            return None
        try:
            given = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
        except ValueError:
            raise CannotKeep(f"{ast.unparse(node)} is given what is not known beforehand") from None
        return self._part(self.writer.values.expression(partial(cls, **given)))

    def _call(self, node: ast.Call) -> ast.expr:
        if self.writer.names.stands_for(node.func, self.function, self.own) is partial:
            made_so = self._partial(node)
            if made_so is not None:
                return made_so
        method = self._method(node)
        target = self.writer.names.stands_for(node.func, self.function, self.own)
        function: Any = method if method is not None else target
        made = self._with_visited(node)
        if self.writer.takes_options(function):
            made.keywords.append(_options())
        return made

    def _method(self, node: ast.Call) -> FunctionType | None:
        """The method of ``self`` that is called."""
        match node.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner is not None:
                found = getattr(self.owner.original, name, None)
                if isinstance(found, FunctionType) and is_own_function(found):
                    self.owner.methods[name] = found
                    return found
        return None

    def _with_visited(self, node: ast.Call) -> ast.Call:
        return ast.Call(
            self.visit(node.func),
            [self.visit(each) for each in node.args],
            [self.visit(each) for each in node.keywords],
        )

    def _container(self, node: ast.Call, function: str, is_named: bool) -> ast.expr:
        arguments = [self.visit(argument) for argument in node.args]
        if is_named and len(arguments) == 1:
            values = ast.Call(ast.Attribute(arguments[0], "values", ast.Load()), [], [])
            arguments = [ast.Starred(values, ast.Load())]
        callee = self._part(syntax.parsed(function))
        if function == "flax.nnx.List" and not arguments:
            arguments = [ast.List([], ast.Load())]
        return ast.Call(callee, arguments, [])

    def _by_its_name(self, node: ast.Call, called: Any, made: syntax.Call) -> syntax.Call:
        """A construction by what the original calls the layer's class, if that is a name of the function's own."""
        if not self._is_name(node.func):
            return made
        return self.writer.values.called(called, syntax.parsed(ast.unparse(node.func)), made)

    def _is_name(self, function: ast.expr) -> bool:
        """Whether what is called has its name from the code around: a parameter, an attribute."""
        return self.writer.names.stands_for(function, self.function, self.own) is NOTHING

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        thing = self.writer.names.stands_for(node, self.function, self.own)
        if thing is NOTHING:
            return ast.Attribute(self.visit(node.value), node.attr, node.ctx)
        return self._named(node)

    def _named(self, node: ast.Name | ast.Attribute) -> ast.expr:
        thing = self.writer.names.stands_for(node, self.function, self.own)
        if thing is NOTHING or not isinstance(node.ctx, ast.Load):
            return node
        made = self.writer.names.written(node, thing)
        return node if made is None else self._part(made)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        body, orelse = (self._branch(each) for each in (node.body, node.orelse))
        return ast.IfExp(self.visit(node.test), body, orelse)

    def _branch(self, node: ast.expr) -> ast.expr:
        if any(self._is_not_reached(each) for each in ast.walk(node)):
            raise CannotKeep(f"{ast.unparse(node)} was not made in {self.function.__qualname__}")
        return self.visit(node)  # type: ignore[no-any-return]

    def _is_not_reached(self, node: ast.AST) -> bool:
        """Whether a call that may make a module was not carried out."""
        if not isinstance(node, ast.Call) or not hasattr(node, "number"):
            return False
        if (self.function, node.number) in self.writer.calls.reached:
            return False
        thing = self.writer.names.stands_for(node.func, self.function, self.own)
        if thing is NOTHING:
            return isinstance(node.func, ast.Name) or self._method(node) is not None
        if isinstance(thing, type):
            return issubclass(thing, torch.nn.Module)
        return isinstance(thing, FunctionType) and self.writer.takes_options(thing)

    def _raise(self) -> ast.stmt:
        name = self.owner.original.__name__ if self.owner is not None else self.function.__name__
        message = f"{name}: what stands here was not made in the model that this was translated from"
        error = ast.Call(ast.Name("NotImplementedError", ast.Load()), [ast.Constant(message)], [])
        return ast.Raise(error)

    def _part(self, expression: syntax.Expr) -> ast.expr:
        self.parts.append(expression)
        return ast.Name(_PART.format(len(self.parts) - 1), ast.Load())

    def _with_random_streams(self, made: syntax.Expr) -> Any:
        """A construction in a function that is given its options as one."""
        if self.is_constructor:
            return made

        def of(node: syntax.Node) -> syntax.Node:
            if node == syntax.Name("rngs"):
                return syntax.Subscript(syntax.Name(OPTIONS), syntax.Const("rngs"))
            return node

        return syntax.transformed(made, of)

    @staticmethod
    def _number(node: ast.Call) -> int:
        return getattr(node, "number", -1)


def base_of(cls: type, function: FunctionType) -> type:
    """The class whose constructor a constructor calls by ``super()``."""
    defining = next(base for base in cls.__mro__ if vars(base).get(function.__name__) is function)
    after = cls.__mro__[cls.__mro__.index(defining) + 1 :]
    return next(base for base in after if "__init__" in vars(base))


def _appended(sequential: ast.expr, value: ast.expr) -> ast.stmt:
    append = ast.Attribute(ast.Attribute(sequential, "layers", ast.Load()), "append", ast.Load())
    return ast.Expr(ast.Call(append, [value], []))


def _options() -> ast.keyword:
    return ast.keyword(None, ast.Name(OPTIONS, ast.Load()))


def _outside_of_choices(statements: list[ast.stmt]) -> Iterable[ast.AST]:
    """The nodes that are carried out whenever statements are: not in their branches, nor in parts of a choice."""
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.IfExp):
            waiting.append(node.test)
        elif isinstance(node, ast.For):
            waiting.append(node.iter)
        elif isinstance(node, ast.While):
            waiting.append(node.test)
        elif isinstance(node, ast.BoolOp):
            waiting.append(node.values[0])
        elif not isinstance(
            node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp | ast.Lambda | ast.FunctionDef
        ):
            waiting += ast.iter_child_nodes(node)
