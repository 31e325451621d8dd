"""A written source without its imports from ``port``: what it takes from there is copied into it.

Only what is needed is copied, with what that needs in turn, as it stands in port's own source with its comments. A name
that something else has already becomes another one.
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
    """A source that does not import a package any more.

    Args:
        source: of a module; all that it takes from the package is imported at its top.
        package: what is copied from.
        never: what no copy may import either; the source itself may.

    Raises:
        UsageError: something cannot be copied; says what, where and why.
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
        """Whether the source itself imports nothing of what no copy may."""

    def is_own(self, module: str) -> bool:
        """Whether a module is of the package."""
        return module == self.package or module.startswith(f"{self.package}.")

    def text(self) -> str:
        """The source with the copies."""
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

    # %% What is needed

    def _copy(self, module: Module, wanted: set[Definition]) -> None:
        """Take definitions of a module, with all that they need."""
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
        """Take what changes something that was copied, from where something was copied; and what that needs."""
        before = 0
        while before != (before := sum(map(len, self.copied.values()))):
            for module in [module for module in self.copied if module is not self.root]:
                there = {Defined(m.name, name) for m, copied in self.copied.items() for d in copied for name in d.binds}
                for definition, names in module.changing():
                    if there & {module.target(name, self.modules) for name in names}:
                        self._copy(module, {definition})

    def _put_in_order(self, module: Module, above: tuple[Module, ...] = ()) -> None:
        """What is needed first comes first: a class may be made from another when the file is imported."""
        for definition in sorted(self.copied[module], key=lambda definition: definition.lines):
            for _, _, target in self.references[definition]:
                there = self.modules(target.module) if isinstance(target, Defined) and target.module else module
                if there not in (*self.order, *above, module):
                    self._put_in_order(there, (*above, module))
        self.order.append(module)

    def _read(self, module: Module, definition: Definition) -> Iterator[tuple[ast.expr, str, Target]]:
        """The names in a definition that stand for something: the expression, its text, what it is."""
        parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(definition.node):
            parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
            is_own = isinstance(node, ast.Import | ast.ImportFrom) and module.takes_own(node)
            if is_own and node not in definition.names.imports:
                raise self._refused(module, node, f"`{ast.unparse(node)}` stands where it cannot be taken out")
        found = [(name, module.target(name.id, self.modules)) for name in definition.names.found]
        for name, statement in definition.names.imported:
            found.append((name, module.imported(statement, _alias(name.id, statement), self.modules)))
        for name, target in found:
            read: ast.expr = name
            while isinstance(target, Whole):
                parent = parents.get(read)
                if not isinstance(parent, ast.Attribute):
                    raise self._refused(module, read, f"the module {target.module} itself is handed on")
                target, read = attribute_of(target.module, parent.attr, self.modules), parent
            if isinstance(target, Imported) and target.module.partition(".")[0] in self.never:
                if module is not self.root:
                    raise self._refused(module, read, f"it needs {target.module}")
                self.is_free = False
            if target is not None:
                yield read, ast.unparse(read), target

    def _refused(self, module: Module, node: ast.AST, why: str) -> UsageError:
        place = f"{module.name or 'the written source'}, line {getattr(node, 'lineno', '?')}"
        return UsageError(f"a standalone source cannot be made: {place}: {why}. Leave standalone away")

    def _share(self) -> None:
        """Leave out what another module defines to the letter, ``Sizes = int | Sequence[int]``."""
        first: dict[object, Target] = {}
        same: dict[Target, Target] = {}
        for module in self.order:
            for definition in module.definitions:
                if module is self.root or definition not in self.copied[module] or not _is_fixed(definition):
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
        """Give each thing the name that it has, or a free one."""
        texts: dict[Target, dict[Module, set[str]]] = {}
        for module in [self.root, *self.order]:
            for definition in self.copied[module]:
                for _, text, target in self.references[definition]:
                    texts.setdefault(target, {}).setdefault(module, set()).add(text)
        wanted: dict[Target, str] = {}
        # What is there keeps its name; then what the source itself imports, and then the rest.
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
        """The copied definitions of a module, beneath the first sentence of its docstring."""
        told = " ".join(module.docstring.split("\n\n")[0].split())
        head = textwrap.wrap(f"# %% {module.name}: {told}", 118, subsequent_indent="# ", break_on_hyphens=False)
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


def _is_fixed(definition: Definition) -> bool:
    """Whether one does for two: a function, or a name for what nothing can change."""
    match definition.node:
        case ast.FunctionDef(decorator_list=[]):
            return True
        case ast.Assign(targets=[ast.Name()], value=value):
            made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Call)
            return not any(isinstance(node, made) for node in ast.walk(value))
    return False


def _candidates(target: Target, name: str) -> Iterator[str]:
    """A name, and others in its place: ``TorchBatchNorm``, ``torch_pad``, ``_padding_check`` for a module's own."""
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
