"""Split a Python module's text into definitions, and resolve its names."""

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
    """An import from another package, such as ``jax.numpy``."""

    path: str
    module: str
    attribute: str | None

    def line(self, name: str) -> str:
        """Return the import statement that binds the name."""
        if self.attribute is None:
            # ``import a.b`` binds a; ``import a.b as c`` binds a.b, which is then the path.
            return f"import {self.module}" + ("" if name == self.path else f" as {name}")
        return f"from {self.module} import {self.attribute}" + ("" if name == self.attribute else f" as {name}")


@dataclass(frozen=True)
class Whole:
    """A whole module."""

    module: str


Target = Defined | Imported | Whole
_MODULE_ATTRIBUTES = {*vars(ModuleType("")), "__file__"}


@dataclass(eq=False)
class Definition:
    """A statement at the top of a module.

    Attributes:
        node: the statement.
        lines: first and last line, from 1, including comments directly above and a docstring below.
        names: the names that it looks up and binds.
        binds: the names that it binds in the module.
    """

    node: ast.stmt
    lines: tuple[int, int]
    names: ModuleNames
    binds: set[str]


class Module:
    """The text of a module.

    Attributes:
        name: dotted; ``""`` for a text that belongs to no package.
        text: its source.
        definitions: its top-level statements except imports, in order.
    """

    def __init__(self, name: str, text: str, is_own: Callable[[str], bool], package: str = "") -> None:
        self.name, self.text, self.is_own, self.package = name, text, is_own, package
        self.tree = ast.parse(text)
        self._imports: dict[str, tuple[Import, ast.alias]] = {}
        self.definitions: list[Definition] = []
        self._read()

    @cached_property
    def docstring(self) -> str:
        """The module's docstring."""
        return ast.get_docstring(self.tree) or ""

    @cached_property
    def local_names(self) -> set[str]:
        """Names that functions or classes bind locally."""
        return set[str]().union(*(definition.names.local for definition in self.definitions))

    def defining(self, name: str) -> list[Definition]:
        """Return the statements that bind a name."""
        return [definition for definition in self.definitions if name in definition.binds]

    def changing(self) -> Iterator[tuple[Definition, set[str]]]:
        """Yield the statements with side effects at import, and the names of what they may modify.

        Examples are ``f.defvjp(forward, back)`` and a function decorated with ``@f.defjvp``.
        """
        for definition in self.definitions:
            match definition.node:
                case ast.Expr():
                    yield definition, {node.id for node in definition.names.found}
                case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
                    inside = [node for decorator in decorators for node in ast.walk(decorator)]
                    yield definition, {_root(node) for node in inside if isinstance(node, ast.Attribute)} - {""}

    def target(self, name: str, modules: Callable[[str], Module]) -> Target | None:
        """Resolve a name of the module; None for a builtin.

        Raises:
            UsageError: the name has no definition.
        """
        if self.defining(name):
            return Defined(self.name, name)
        if name in self._imports:
            statement, alias = self._imports[name]
            return self.imported(statement, alias, modules)
        if name in _MODULE_ATTRIBUTES and self.name:
            raise UsageError(f"{self.name} reads {name}, which has another value in a copy")
        if name in _MODULE_ATTRIBUTES or hasattr(builtins, name):
            return None
        raise UsageError(f"{self.name or 'the generated source'} reads {name}, which nothing there defines")

    def imported(self, statement: Import, alias: ast.alias, modules: Callable[[str], Module]) -> Target:
        """Return what an import in this module binds."""
        if isinstance(statement, ast.Import):
            bound = alias.name if alias.asname is not None else alias.name.partition(".")[0]
            return Whole(bound) if self.is_own(bound) else Imported(bound, alias.name, None)
        module = self.module_of(statement)
        if self.is_own(module):
            return attribute_of(module, alias.name, modules)
        return Imported(f"{module}.{alias.name}", module, alias.name)

    def module_of(self, statement: ast.ImportFrom) -> str:
        """Return the absolute name of the module that is imported from."""
        if not statement.level:
            return statement.module or ""
        above = self.package.split(".")[: len(self.package.split(".")) - statement.level + 1]
        return ".".join([*above, *([statement.module] if statement.module else [])])

    def takes_own(self, statement: Import) -> bool:
        """Whether an import is from the package that is copied."""
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
    """Resolve ``module.name`` in the package that is copied.

    Raises:
        UsageError: the module's source does not define the name.
    """
    there = modules(module)
    if there.defining(name) or name in there._imports:
        found = there.target(name, modules)
        assert found is not None
        return found
    if _spec(f"{module}.{name}") is not None:
        return Whole(f"{module}.{name}")
    raise UsageError(f"{module} has no {name} in its source")


def read_module(name: str, is_own: Callable[[str], bool]) -> Module:
    """Read a module's source, without importing it.

    Raises:
        UsageError: it has no Python source.
    """
    spec = _spec(name)
    text = getattr(spec.loader, "get_source", lambda _: None)(name) if spec is not None else None
    if spec is None or text is None:
        raise UsageError(f"{name} cannot be copied: it has no Python source")
    return Module(name, text, is_own, name if spec.submodule_search_locations is not None else name.rpartition(".")[0])


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def _plain_imports(node: ast.stmt) -> list[Import]:
    """Return the imports of an import statement, or of an ``if TYPE_CHECKING`` block of imports; else none."""
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
