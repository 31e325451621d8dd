"""Copy into a generated source what it imports from ``port``.

Only the definitions that are needed are copied, transitively, with their comments. Names that collide are changed.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Callable, Iterator
from functools import cache

from port.errors import UsageError
from port.translation.codegen.module_of_source import MODEL
from port.translation.codegen.vendor.definitions import (
    Defined,
    Definition,
    Imported,
    Module,
    Target,
    Whole,
    attribute_of,
    read_module,
)
from port.translation.codegen.vendor.lookups import Import, local_name
from port.translation.codegen.vendor.renaming import Edit, edited, in_text
from port.version import __version__

_HEAD = (
    f"# Layers and functions with PyTorch's semantics, copied from port {__version__} (MIT License, Copyright (c) 2026 "
    "the authors of port): with them, this file needs "
)


def with_own_copies(source: str, *, package: str = "port", never: tuple[str, ...] = ("torch",)) -> str:
    """Return a source that no longer imports a package.

    Args:
        source: text of a module that imports the package at its top only.
        package: the package to copy from.
        never: packages that copies must not import; the source itself may.

    Raises:
        UsageError: something cannot be copied; the message says what, where and why.
    """
    return _Copying(source, package, never).text()


class _Copying:
    def __init__(self, source: str, package: str, never: tuple[str, ...]) -> None:
        self.package, self.never = package, never
        self.modules: Callable[[str], Module] = cache(lambda name: read_module(name, self.is_own))
        self.root = Module("", source, self.is_own)
        self.copied: dict[Module, set[Definition]] = {}
        self.order: list[Module] = []
        self.references: dict[Definition, list[tuple[ast.expr, str, Target]]] = {}
        self.names: dict[Target, str] = {}
        self.lines: list[str] = []
        self.is_free = True
        """Whether the source itself imports none of the packages in ``never``."""

    def is_own(self, module: str) -> bool:
        """Whether a module belongs to the package."""
        return module == self.package or module.startswith(f"{self.package}.")

    def text(self) -> str:
        """Return the source with the copies."""
        self._copy(self.root, set(self.root.definitions))
        if set(self.copied) == {self.root}:
            return self.root.text
        self._copy_changes()
        self._put_in_order(self.root)
        self._share()
        self._name()
        copies = [self._copied_text(module) for module in self.order if module is not self.root and self.copied[module]]
        lines = self.root.text.splitlines(keepends=True)
        first = self.root.definitions[0].lines[0] if self.root.definitions else len(lines) + 1
        head = self._without_own_imports(lines[: first - 1])
        parts = [
            head + "\n".join(self.lines),
            "\n".join(
                textwrap.wrap(
                    _HEAD + ("neither port nor PyTorch." if self.is_free else "no port."),
                    118,
                    subsequent_indent="# ",
                    break_on_hyphens=False,
                )
            ),
            *copies,
            MODEL,
            edited(self.root.text, self._edits(self.root), (first, len(lines))),
        ]
        return "\n\n\n".join(parts)

    # %% Dependencies

    def _copy(self, module: Module, wanted: set[Definition]) -> None:
        """Copy definitions of a module, with all that they need."""
        known = self.copied.setdefault(module, set())
        new = [definition for definition in module.definitions if definition in wanted - known]
        known |= wanted
        for definition in new:
            self.references[definition] = list(self._read(module, definition))
            for _, _, target in self.references[definition]:
                if isinstance(target, Defined):
                    there = self.modules(target.module) if target.module else self.root
                    self._copy(there, set(there.defining(target.name)))

    def _copy_changes(self) -> None:
        """Copy statements that modify a copied definition when imported, as ``f.defvjp(…)``, and what they need."""
        before = 0
        while before != (before := sum(map(len, self.copied.values()))):
            for module in [module for module in self.copied if module is not self.root]:
                there = {Defined(m.name, name) for m, copied in self.copied.items() for d in copied for name in d.binds}
                for definition, names in module.changing():
                    if there & {module.target(name, self.modules) for name in names}:
                        self._copy(module, {definition})

    def _put_in_order(self, module: Module, above: tuple[Module, ...] = ()) -> None:
        """Order modules by dependency: a base class has to be defined before the class that derives from it."""
        for definition in sorted(self.copied[module], key=lambda definition: definition.lines):
            for _, _, target in self.references[definition]:
                there = self.modules(target.module) if isinstance(target, Defined) and target.module else module
                if there not in (*self.order, *above, module):
                    self._put_in_order(there, (*above, module))
        self.order.append(module)

    def _read(self, module: Module, definition: Definition) -> Iterator[tuple[ast.expr, str, Target]]:
        """Yield the names in a definition that need a target: the expression, its text, the target."""
        parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(definition.node):
            parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
            is_own = isinstance(node, ast.Import | ast.ImportFrom) and module.takes_own(node)
            if is_own and node not in definition.names.imports:
                raise self._refused(module, node, f"`{ast.unparse(node)}` is where it cannot be removed")
        found = [(name, module.target(name.id, self.modules)) for name in definition.names.found]
        for name, statement in definition.names.imported:
            found.append((name, module.imported(statement, _alias(name.id, statement), self.modules)))
        for name, target in found:
            read: ast.expr = name
            while isinstance(target, Whole):
                parent = parents.get(read)
                if not isinstance(parent, ast.Attribute):
                    raise self._refused(module, read, f"the module {target.module} itself is used as a value")
                target, read = attribute_of(target.module, parent.attr, self.modules), parent
            if isinstance(target, Imported) and target.module.partition(".")[0] in self.never:
                if module is not self.root:
                    raise self._refused(module, read, f"it needs {target.module}")
                self.is_free = False
            if target is not None:
                yield read, ast.unparse(read), target

    def _refused(self, module: Module, node: ast.AST, why: str) -> UsageError:
        place = f"{module.name or 'the generated source'}, line {getattr(node, 'lineno', '?')}"
        return UsageError(f"a standalone source is not possible: {place}: {why}. Translate without standalone")

    def _share(self) -> None:
        """Drop definitions that another module repeats verbatim, as ``Sizes = int | Sequence[int]``."""
        first: dict[object, Target] = {}
        same: dict[Target, Target] = {}
        for module in self.order:
            for definition in module.definitions:
                if module is self.root or definition not in self.copied[module] or not _is_immutable(definition):
                    continue
                (name,) = definition.binds
                target = Defined(module.name, name)
                others = frozenset((text, t) for _, text, t in self.references[definition] if t != target)
                whole = ast.dump(definition.node), others
                if len(module.defining(name)) == 1 and first.setdefault(whole, target) != target:
                    same[target] = first[whole]
                    self.copied[module].remove(definition)
        for read in self.references.values():
            read[:] = [(node, text, same.get(target, target)) for node, text, target in read]

    # %% Names

    def _name(self) -> None:
        """Choose a name for each target: its own, or a free one if that is taken."""
        texts: dict[Target, dict[Module, set[str]]] = {}
        for module in [self.root, *self.order]:
            for definition in self.copied[module]:
                for _, text, target in self.references[definition]:
                    texts.setdefault(target, {}).setdefault(module, set()).add(text)
        wanted: dict[Target, str] = {}
        # The source's own definitions keep their names; its imports come next, then the rest.
        for name in sorted(set[str]().union(*(definition.binds for definition in self.root.definitions))):
            wanted[Defined("", name)] = name
        for module in [self.root, *self.order]:
            for definition in module.definitions:
                if definition not in self.copied[module]:
                    continue
                if module is not self.root:
                    wanted |= {Defined(module.name, name): name for name in sorted(definition.binds)}
                for _, text, target in self.references[definition]:
                    if isinstance(target, Imported):
                        wanted.setdefault(target, text)
                    elif module is self.root:
                        wanted.setdefault(target, target.name)  # type: ignore[union-attr]
        taken: dict[str, object] = {}
        for target, name in wanted.items():
            key = target.path if isinstance(target, Imported) else target
            stays = self.root in texts.get(target, {}) if isinstance(target, Imported) else target == Defined("", name)
            for candidate in _candidates(target, name):
                others = {m for m, written in texts.get(target, {}).items() if written != {candidate}}
                hidden = any(candidate in module.local_names for module in others)
                is_free = taken.get(candidate, key) == key and not hidden and not hasattr(builtins, candidate)
                if stays or candidate == "_" or is_free:
                    break
            taken[candidate] = key
            self.names[target] = candidate
            if isinstance(target, Imported) and set(texts[target]) != {self.root}:
                self.lines.append(target.line(candidate))

    # %% Text

    def _copied_text(self, module: Module) -> str:
        """Return the copied definitions of a module, below the first paragraph of its docstring."""
        summary = " ".join(module.docstring.split("\n\n")[0].split())
        head = textwrap.wrap(f"# %% {module.name}: {summary}", 118, subsequent_indent="# ", break_on_hyphens=False)
        edits = self._edits(module)
        kept = [definition for definition in module.definitions if definition in self.copied[module]]
        return "\n\n".join(["\n".join(head), *(edited(module.text, edits, definition.lines) for definition in kept)])

    def _edits(self, module: Module) -> list[Edit]:
        edits: list[Edit] = []
        for definition in self.copied[module]:
            new = {node: self.names[target] for node, _, target in self.references[definition]}
            own = {name: self.names.get(Defined(module.name, name), name) for name in definition.binds}
            edits += in_text(module.text, definition.node, new, own, definition.names.imports)
        return edits

    def _without_own_imports(self, lines: list[str]) -> str:
        kept = list(lines)
        for node in self.root.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom) and self.root.takes_own(node):
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    kept[number - 1] = ""
        return "".join(kept)


def _alias(name: str, statement: Import) -> ast.alias:
    return next(alias for alias in statement.names if local_name(alias, statement) == name)


def _is_immutable(definition: Definition) -> bool:
    """Whether two equal definitions can share one copy: a function, or a name for an immutable value."""
    match definition.node:
        case ast.FunctionDef(decorator_list=[]):
            return True
        case ast.Assign(targets=[ast.Name()], value=value):
            made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Call)
            return not any(isinstance(node, made) for node in ast.walk(value))
    return False


def _candidates(target: Target, name: str) -> Iterator[str]:
    """Yield a name and its alternatives: ``TorchBatchNorm``, ``torch_pad``, or ``_padding_check`` for a private one."""
    yield name
    home = target.module.rpartition(".")[2] if not isinstance(target, Whole) else ""
    if isinstance(target, Imported):
        other = f"{home}_{name}"
    elif name.startswith("_"):
        other = f"_{home.upper() if name.isupper() else home}_{name.lstrip('_')}"
    else:
        other = f"Torch{name}" if name[0].isupper() and not name.isupper() else f"torch_{name}"
    yield other
    number = 2
    while True:
        yield f"{other}_{number}"
        number += 1
