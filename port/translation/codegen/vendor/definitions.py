"""A Python module's text as definitions that can be taken out of it, and what every name in it stands for."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from port.errors import UsageError
from port.translation.codegen.vendor.lookups import Import, ModuleNames, bound_names, local_name, module_names


@dataclass(frozen=True)
class Defined:
    """A name that a module defines."""

    module: str
    name: str


@dataclass(frozen=True)
class Imported:
    """Something of another package's, ``jax.numpy``, and the import that gives it."""

    path: str
    module: str
    attribute: str | None

    def line(self, name: str) -> str:
        """The import under a name."""
        if self.attribute is None:
            # ``import a.b`` gives a; ``import a.b as c`` gives a.b, which is then the path.
            return f"import {self.module}" + ("" if name == self.path else f" as {name}")
        return f"from {self.module} import {self.attribute}" + ("" if name == self.attribute else f" as {name}")


@dataclass(frozen=True)
class Whole:
    """A module itself."""

    module: str


Target = Defined | Imported | Whole
_EVERY_MODULE_S = {*vars(ModuleType("")), "__file__"}


@dataclass(eq=False)
class Definition:
    """A statement at the top of a module.

    Attributes:
        node: the statement.
        lines: its first and its last line, from 1, with the comments right above it and a docstring beneath it.
        names: what it binds, and what it reads.
        binds: the names that it binds in the module.
    """

    node: ast.stmt
    lines: tuple[int, int]
    names: ModuleNames
    binds: set[str]


class Module:
    """The text of a module.

    Attributes:
        name: dotted; ``""`` for a text that is none of a package's.
        text: its source.
        definitions: its statements but for the imports, in order.
    """

    def __init__(self, name: str, text: str, is_own: Callable[[str], bool], package: str = "") -> None:
        self.name, self.text, self.is_own, self.package = name, text, is_own, package
        self.tree = ast.parse(text)
        self._imports: dict[str, tuple[Import, ast.alias]] = {}
        self.definitions: list[Definition] = []
        self._read()

    @cached_property
    def docstring(self) -> str:
        """What the module says of itself."""
        return ast.get_docstring(self.tree) or ""

    @cached_property
    def local_names(self) -> set[str]:
        """Names that stand for something of their own inside functions or classes."""
        return set[str]().union(*(definition.names.local for definition in self.definitions))

    def defining(self, name: str) -> list[Definition]:
        """The statements that bind a name."""
        return [definition for definition in self.definitions if name in definition.binds]

    def changing(self) -> Iterator[tuple[Definition, set[str]]]:
        """The statements that change something when the module is imported, and names of what they may change.

        ``f.defvjp(forward, back)`` does, and ``@f.defjvp`` above a function.
        """
        for definition in self.definitions:
            match definition.node:
                case ast.Expr():
                    yield definition, {node.id for node in definition.names.found}
                case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
                    inside = [node for decorator in decorators for node in ast.walk(decorator)]
                    yield definition, {_root(node) for node in inside if isinstance(node, ast.Attribute)} - {""}

    def target(self, name: str, modules: Callable[[str], Module]) -> Target | None:
        """What a name of the module's stands for, where it is defined; None for one of Python's own.

        Raises:
            UsageError: it stands for nothing that can be found.
        """
        if self.defining(name):
            return Defined(self.name, name)
        if name in self._imports:
            statement, alias = self._imports[name]
            return self.imported(statement, alias, modules)
        if name in _EVERY_MODULE_S and self.name:
            raise UsageError(f"{self.name} reads {name}, which is another in a copy")
        if name in _EVERY_MODULE_S or hasattr(builtins, name):
            return None
        raise UsageError(f"{self.name or 'the written source'} reads {name}, and nothing there defines it")

    def imported(self, statement: Import, alias: ast.alias, modules: Callable[[str], Module]) -> Target:
        """What an import in this module gives."""
        if isinstance(statement, ast.Import):
            given = alias.name if alias.asname is not None else alias.name.partition(".")[0]
            return Whole(given) if self.is_own(given) else Imported(given, alias.name, None)
        module = self.module_of(statement)
        if self.is_own(module):
            return attribute_of(module, alias.name, modules)
        return Imported(f"{module}.{alias.name}", module, alias.name)

    def module_of(self, statement: ast.ImportFrom) -> str:
        """The module that is imported from; a relative one with its package."""
        if not statement.level:
            return statement.module or ""
        above = self.package.split(".")[: len(self.package.split(".")) - statement.level + 1]
        return ".".join([*above, *([statement.module] if statement.module else [])])

    def takes_own(self, statement: Import) -> bool:
        """Whether an import is of a package that is copied."""
        if isinstance(statement, ast.ImportFrom):
            return self.is_own(self.module_of(statement))
        return any(self.is_own(alias.name) for alias in statement.names)

    def _read(self) -> None:
        lines = self.text.splitlines()
        for number, node in enumerate(self.tree.body):
            for statement in _plain_imports(node):
                self._imports |= {local_name(alias, statement): (statement, alias) for alias in statement.names}
            if _plain_imports(node) or (number == 0 and _is_text(node)):
                continue
            if _is_text(node) and self.definitions and self.tree.body[number - 1] is self.definitions[-1].node:
                before = self.definitions[-1]
                before.lines = (before.lines[0], node.end_lineno or node.lineno)
                continue
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            while first > 1 and lines[first - 2].startswith("#"):
                first -= 1
            names = module_names(node, self.takes_own)
            self.definitions.append(Definition(node, (first, node.end_lineno or first), names, bound_names([node])))


def attribute_of(module: str, name: str, modules: Callable[[str], Module]) -> Target:
    """What ``module.name`` is, in a package that is copied."""
    there = modules(module)
    if there.defining(name) or name in there._imports:
        found = there.target(name, modules)
        assert found is not None
        return found
    if _spec(f"{module}.{name}") is not None:
        return Whole(f"{module}.{name}")
    raise UsageError(f"{module} has no {name} in its source")


def read_module(name: str, is_own: Callable[[str], bool]) -> Module:
    """A module that can be imported, from its source.

    Raises:
        UsageError: it has none.
    """
    spec = _spec(name)
    text = getattr(spec.loader, "get_source", lambda _: None)(name) if spec is not None else None
    if spec is None or text is None:
        raise UsageError(f"{name} cannot be copied: its Python source is not there")
    return Module(name, text, is_own, name if spec.submodule_search_locations is not None else name.rpartition(".")[0])


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def _plain_imports(node: ast.stmt) -> list[Import]:
    """The imports of a statement that is nothing else; those for a type checker count as others do."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [node]
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        inside = [_plain_imports(statement) for statement in node.body]
        return [statement for found in inside for statement in found] if all(inside) and not node.orelse else []
    return []


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
