"""Translate the statements of a constructor and of the functions that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import FunctionType, MappingProxyType

import torch

from port.translation.frontend.construction.construction_calls import is_own
from port.translation.frontend.construction.function_trees import definition_of
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.module_tree import LAYERS, identifier
from port.translation.structure.constructors import shortened
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.comments import comments_of
from port.translation.structure.kept_constructors.expression_writer import ExpressionWriter, items_of, options_given
from port.translation.structure.kept_constructors.filled_branches import NOT_REACHED
from port.translation.structure.kept_constructors.known import Owner
from port.translation.structure.kept_constructors.needed_statements import blocks_of
from port.translation.structure.kept_constructors.table_source import TableSource

NO_MODULE = code("nnx.data(None)")
"""The value of an attribute that may become a module later; Flax requires it to be marked as data."""
IDLE_MODULE = code("nnx.Sequential()")
"""A module that returns its input."""


class StatementWriter(ExpressionWriter):
    """Translates the statements of one function.

    Attributes:
        tables: names of buffers → the statements that compute them.
    """

    tables: Mapping[str, TableSource] = MappingProxyType({})

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Translate a block of statements."""
        if any(self.is_not_reached(node) for node in _outside_of_choices(statements)):
            return [self._raise()]
        made: list[ast.stmt] = []
        for statement in statements:
            written = self._statement(statement)
            made += [*comments_of(statement), *written] if written else []
        return made

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        for table in self.tables.values():
            if statement in table.statements:
                return [table.written(statement, self.visit)]
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
            case ast.FunctionDef() | ast.ClassDef() | ast.With() | ast.Try() | ast.Match():
                kind = type(statement).__name__
                raise CannotKeep(f"{self.function.__qualname__} contains an unsupported statement: {kind}")
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))) as call):
                return self._of_base(call)
            case ast.Expr(value=ast.Call() as call):
                return self._call_alone(call)
            case ast.Assign(value=ast.IfExp() as choice) if self._is_half_reached(choice):
                return self._statement(self._as_branches(statement, choice))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self._is_made_for_others(call):
                self.layers_for_others[name] = self._layer(call)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                return self._attribute(name, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._statement(ast.Assign([target], value))
            case ast.Assign(targets=targets):
                self._check_all_held(targets)
        for block in blocks_of(statement):
            block[:] = self.block(block) or [ast.Pass()]
        for name, value in ast.iter_fields(statement):
            if name not in ("body", "orelse", "finalbody", "handlers") and isinstance(value, ast.AST):
                setattr(statement, name, self.visit(value))
            elif name == "targets":
                statement.targets = [self.visit(target) for target in value]  # type: ignore[attr-defined]
        return [statement]

    def _is_made_for_others(self, call: ast.Call) -> bool:
        place = self.function, self.number_of(call)
        return self.known.forms.is_made_for_others(place) and self.known.forms.of(place) is not None

    def _is_half_reached(self, choice: ast.IfExp) -> bool:
        return any(self.is_not_reached(node) for part in (choice.body, choice.orelse) for node in ast.walk(part))

    @staticmethod
    def _as_branches(statement: ast.Assign, choice: ast.IfExp) -> ast.If:
        """Write ``a = b if c else d`` as two branches, one of which may raise."""
        one, other = (ast.Assign(statement.targets, value) for value in (choice.body, choice.orelse))
        return ast.If(choice.test, [one], [other])

    def _check_all_held(self, targets: list[ast.expr]) -> None:
        """Check that a multiple assignment contains no module that the written class does not hold.

        Raises:
            CannotKeep: it does.
        """
        for node in (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Attribute)):
            if self.owner is not None and node.attr in self.owner.modules - self.owner.written:
                raise CannotKeep(f"{self.function.__qualname__} assigns {node.attr} together with other names")

    def _attribute(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """Translate an assignment to an attribute of ``self``."""
        owner = self.owner
        if owner is not None and owner.is_sequential and name in owner.modules:
            return [_appended(ast.Name("self", ast.Load()), self.visit(value))]
        target = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store())
        if name in self.tables:
            held = ast.Call(self.part(code("Buffer")), [self.tables[name].start(self.visit)], [])
            return [ast.Assign([target], held)]
        if owner is not None and name in owner.tensors:
            made = self.part(self.tensor(name, owner.tensors[name]))
            return [ast.Assign([target], self._where_it_is_made(value, made))]
        if owner is not None and name in owner.modules and self._is_nothing(name, value, owner):
            return [ast.Assign([target], self.part(NO_MODULE))]
        if owner is not None and name in owner.modules and self._is_idle_at_first(name, value):
            return [ast.Assign([target], self.part(IDLE_MODULE))]
        return [ast.Assign([target], self.visit(value))]

    def _is_idle_at_first(self, name: str, value: ast.expr) -> bool:
        """Whether it is an Identity that another module may replace: in Flax no function becomes a module."""
        definition = definition_of(self.function)
        if not isinstance(value, ast.Call) or definition is None:
            return False
        if self.known.names.stands_for(value.func, self.function, self.own) is not torch.nn.Identity:
            return False
        accesses = [node for node in ast.walk(definition) if isinstance(node, ast.Attribute) and node.attr == name]
        return sum(isinstance(node.ctx, ast.Store) for node in accesses) > 1

    def _is_nothing(self, name: str, value: ast.expr, owner: Owner) -> bool:
        """Whether a module is None or empty here, while another instance has one and the call tells them apart."""
        if isinstance(value, ast.Call):
            return name in owner.written and self.known.forms.is_left_out((self.function, self.number_of(value)))
        return isinstance(value, ast.Constant) and value.value is None

    def _where_it_is_made(self, value: ast.expr, made: ast.expr) -> ast.expr:
        """A tensor under the original's condition: ``nn.Parameter(…) if bias else None``."""
        match value:
            case ast.IfExp(test=test, orelse=ast.Constant(value=None) as nothing):
                return ast.IfExp(self.visit(test), made, nothing)
            case ast.IfExp(test=test, body=ast.Constant(value=None) as nothing):
                return ast.IfExp(self.visit(test), nothing, made)
        return made

    def tensor(self, name: str, starts: tuple[syntax.Expr, ...]) -> syntax.Expr:
        """The initial value of a parameter or buffer, common to all instances.

        Raises:
            CannotKeep: the instances differ.
        """
        made = {self.said(self.known.forms.said_in(self.function, start)) for start in starts}
        if len(made) != 1:
            raise CannotKeep(f"{name} of {self.function.__qualname__} has another initial value in other instances")
        return self.with_options_given(made.pop())

    def _call_alone(self, call: ast.Call) -> list[ast.stmt]:
        """Translate a call made for its side effect."""
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
                kind = self.known.calls.owners.get((self.function, self.number_of(call)))
                is_own_list = self.owner is not None and self.owner.is_list and _is_self(base)
                if is_own_list or (kind is not None and issubclass(kind, torch.nn.Sequential)):
                    return [_appended(self.visit(base), self.visit(value))]
                parts: list[ast.expr] = [self.visit(base), self.visit(name), self.visit(value)]
                return [ast.Expr(ast.Call(ast.Name("setattr", ast.Load()), parts, []))]
            case ast.Call(func=ast.Attribute(value=base, attr="append" | "extend" as method), args=[value]) if (
                self.owner is not None and self.owner.is_list and _is_self(base)
            ):
                return [_appended(base, self.visit(value), method)]
        return [ast.Expr(self.visit(call))]

    def _of_base(self, call: ast.Call) -> list[ast.stmt]:
        """Translate ``super().__init__(…)``."""
        assert self.owner is not None and isinstance(call.func, ast.Attribute)
        base = base_of(self.owner.original, self.function)
        if call.func.attr != "__init__":
            raise CannotKeep(f"{self.function.__qualname__} calls {ast.unparse(call.func)}")
        if self.owner.is_list and base in (torch.nn.ModuleList, torch.nn.ModuleDict):
            arguments = items_of([self.visit(each) for each in call.args], is_named=base is torch.nn.ModuleDict)
            if not arguments or isinstance(arguments[0], ast.Starred):
                arguments = [ast.List(arguments, ast.Load())]
            made = ast.Call(self.part(code("flax.nnx.List")), arguments, [])
            return [ast.Assign([ast.Attribute(ast.Name("self", ast.Load()), LAYERS, ast.Store())], made)]
        if base is torch.nn.ModuleDict and len(call.args) == 1:
            return [self._attributes_of(self.visit(call.args[0]), call.lineno)]
        if self.owner.original in self.known.calls.written and not is_own(base):
            twin = self.known.forms.of_layer(self.owner.original, (self.function, self.number_of(call)))
            made_so = replace(shortened(self.said(twin)), func=code("super().__init__"))
            return [ast.Expr(self.part(made_so))]
        if base is torch.nn.Module or (not call.args and not call.keywords and not self.owner.is_sequential):
            return []
        if base is torch.nn.Sequential and not self.owner.is_sequential:
            return self._items_as_attributes(call)
        arguments = [self.visit(argument) for argument in call.args]
        keywords = [self.visit(keyword) for keyword in call.keywords]
        if base is torch.nn.Sequential:
            arguments = items_of(arguments, is_named=not all(name.isdigit() for name in self.owner.modules))
        else:
            keywords.append(options_given())
        return [ast.Expr(ast.Call(call.func, arguments, keywords))]

    def _items_as_attributes(self, call: ast.Call) -> list[ast.stmt]:
        """Assign the items of a Sequential with its own ``forward`` to attributes of ``self``, if they are needed.

        Raises:
            CannotKeep: their names are not their numbers, or their number is unknown.
        """
        assert self.owner is not None
        names = [str(place) for place, _ in enumerate(call.args)]
        if not self.owner.modules >= {*names} or any(isinstance(each, ast.Starred) for each in call.args):
            raise CannotKeep(f"{self.owner.original.__name__} has its own forward, and its items are not listed")
        return [
            ast.Assign([ast.Attribute(ast.Name("self", ast.Load()), identifier(name), ast.Store())], self.visit(each))
            for name, each in zip(names, call.args, strict=True)
            if identifier(name) in self.owner.attributes
        ]

    def _attributes_of(self, modules: ast.expr, line: int) -> ast.stmt:
        """Assign the modules of a dict to attributes of ``self``, as torch's ModuleDict does."""
        items = ast.Call(ast.Attribute(modules, "items", ast.Load()), [], [])
        own = [self._unread(name, line) for name in ("name", "module")]
        names: list[ast.expr] = [ast.Name(each, ast.Load()) for each in own]
        made = ast.Call(ast.Name("setattr", ast.Load()), [ast.Name("self", ast.Load()), *names], [])
        target = ast.Tuple([ast.Name(each, ast.Store()) for each in own], ast.Store())
        return ast.For(target, items, [ast.Expr(made)], [])

    def _unread(self, name: str, line: int) -> str:
        """A name that the original's constructor does not read after a line."""
        nodes = [] if self.definition is None else list(ast.walk(self.definition))
        read = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and getattr(node, "lineno", 0) > line
        }
        while name in read:
            name = f"{name}_"
        return name

    def _raise(self) -> ast.stmt:
        name = self.owner.original.__name__ if self.owner is not None else self.function.__name__
        message = ast.Constant(NOT_REACHED.format(name=name))
        error = ast.Call(ast.Name("NotImplementedError", ast.Load()), [message], [])
        return ast.Raise(error)


def base_of(cls: type, function: FunctionType) -> type:
    """The class whose constructor ``super()`` calls."""
    defining = next(base for base in cls.__mro__ if vars(base).get(function.__name__) is function)
    after = cls.__mro__[cls.__mro__.index(defining) + 1 :]
    return next(base for base in after if "__init__" in vars(base))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _appended(holder: ast.expr, value: ast.expr, method: str = "append") -> ast.stmt:
    append = ast.Attribute(ast.Attribute(holder, LAYERS, ast.Load()), method, ast.Load())
    return ast.Expr(ast.Call(append, [value], []))


def _outside_of_choices(statements: list[ast.stmt]) -> Iterable[ast.AST]:
    """The nodes that certainly run whenever the statements do: not those in branches or conditional expressions."""
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
