"""Find the names in a statement that resolve in its module, rather than in a local scope."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Import = ast.Import | ast.ImportFrom
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass
class ModuleNames:
    """The names in a statement, by where they resolve.

    Attributes:
        found: names that resolve in the module or in Python's builtins.
        imported: names that a wanted import inside a function binds, with that import.
        imports: those imports.
        local: names that functions, classes and comprehensions bind.
    """

    found: list[ast.Name] = field(default_factory=list)
    imported: list[tuple[ast.Name, Import]] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    local: set[str] = field(default_factory=set)


def module_names(statement: ast.stmt, wanted: Callable[[Import], bool] = lambda _: False) -> ModuleNames:
    """Collect the names in a top-level statement.

    Args:
        statement: a statement at the top of a module.
        wanted: which imports inside functions to report; names that the others bind count as local.
    """
    reading = _Reading(wanted)
    reading.visit(statement)
    return reading.names


def bound_names(body: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements bind in their own scope."""
    binding = _Binding()
    for node in body:
        binding.visit(node)
    return set(binding.bound) - binding.elsewhere


def local_name(alias: ast.alias, statement: Import) -> str:
    """Return the name that an import binds: ``a`` for ``import a.b``."""
    if alias.asname is not None:
        return alias.asname
    return alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name


@dataclass
class _Scope:
    names: set[str]
    imports: dict[str, Import] = field(default_factory=dict)
    is_class: bool = False


class _Visitor(ast.NodeVisitor):
    """A visitor with one method for both kinds of functions, and one for all kinds of comprehensions."""

    def take_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        raise NotImplementedError

    def take_comprehension(self, node: Comprehension) -> None:
        raise NotImplementedError

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.take_function(node)
        elif isinstance(node, Comprehension):
            self.take_comprehension(node)
        else:
            super().visit(node)


class _Reading(_Visitor):
    def __init__(self, wanted: Callable[[Import], bool]) -> None:
        self.wanted = wanted
        self.names = ModuleNames()
        self.scopes: list[_Scope] = []

    def visit_Name(self, node: ast.Name) -> None:
        # Names in a class's scope are not visible in its methods.
        visible = [scope for scope in self.scopes if not scope.is_class or scope is self.scopes[-1]]
        scope = next((scope for scope in reversed(visible) if node.id in scope.names), None)
        if scope is None:
            self.names.found.append(node)
        elif node.id in scope.imports:
            self.names.imported.append((node, scope.imports[node.id]))

    def take_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(node.decorator_list)
        self._visit_signature(node)
        if node.returns is not None:
            self.visit(node.returns)
        self._within(_Scope(_parameters(node) | bound_names(node.body), self._imports(node)), node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_signature(node)
        self._within(_Scope(_parameters(node) | bound_names([node.body])), [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._within(_Scope(bound_names(node.body), is_class=True), node.body)

    def take_comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)
        targets = bound_names([generator.target for generator in node.generators])
        rest = [generator.iter for generator in node.generators[1:]]
        tests = [test for generator in node.generators for test in generator.ifs]
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._within(_Scope(targets), [*(generator.target for generator in node.generators), *rest, *tests, *made])

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_signature(self, node: Function) -> None:
        arguments = node.args
        self._visit_all([*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)])
        self._visit_all([argument.annotation for argument in _all_of(arguments) if argument.annotation is not None])

    def _within(self, scope: _Scope, nodes: Sequence[ast.AST]) -> None:
        self.names.local |= scope.names
        self.scopes.append(scope)
        self._visit_all(nodes)
        self.scopes.pop()

    def _imports(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Import]:
        found: dict[str, Import] = {}
        for node in _own_statements(function.body):
            if isinstance(node, ast.Import | ast.ImportFrom) and self.wanted(node):
                self.names.imports.append(node)
                found |= {local_name(alias, node): node for alias in node.names}
        return found


class _Binding(_Visitor):
    def __init__(self) -> None:
        self.bound: list[str] = []
        self.elsewhere: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.append(node.id)

    def take_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bound.append(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.append(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def take_comprehension(self, node: Comprehension) -> None:
        # A comprehension's targets stay inside; names bound by := do not.
        self.bound += [
            inner.target.id
            for inner in ast.walk(node)
            if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name)
        ]

    def visit_Import(self, node: Import) -> None:
        self.bound += [local_name(alias, node) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.visit_Import(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.bound += [node.name] if node.name is not None else []
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.bound += [node.name] if node.name is not None else []
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.visit_MatchAs(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.bound += [node.rest] if node.rest is not None else []
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.elsewhere |= set(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.visit_Global(node)


def _all_of(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]


def _parameters(node: Function) -> set[str]:
    return {argument.arg for argument in _all_of(node.args)}


def _own_statements(body: Sequence[ast.AST]) -> list[ast.AST]:
    """Return all nodes of a function's body, except inside nested functions and classes."""
    found: list[ast.AST] = []
    for node in body:
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            found += _own_statements(list(ast.iter_child_nodes(node)))
    return found
