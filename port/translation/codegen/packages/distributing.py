"""Distribute the definitions of a generated source over the files of a package.

Statements stay unchanged, with two exceptions: class names lose a numeric suffix that their file does not need, and
paths to the files beside the package are adjusted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from port.translation.codegen.emit import formatted
from port.translation.codegen.module_of_source import MODEL
from port.translation.codegen.packages.import_order import joined_places
from port.translation.codegen.packages.original_files import OriginalDefinition
from port.translation.codegen.packages.places import (
    INIT,
    FilePlace,
    dotted_place,
    file_of,
    folders_of,
    free_place,
    places_of,
    relative_module,
)
from port.translation.codegen.packages.shorter_names import names_in_files
from port.translation.codegen.vendor.definitions import Definition, Module
from port.translation.codegen.vendor.lookups import Import
from port.translation.codegen.vendor.renaming import edited, in_text

COPIES = ("from_port",)
"""The file of a standalone package that holds the copies from port."""

_BESIDE = "Path(__file__).with_name("
_FUTURE = "from __future__ import annotations"


@dataclass(frozen=True)
class WrittenPackage:
    """A generated source as a package.

    Attributes:
        files: paths in the package, as ``layers/attention.py`` → texts.
        homes: name of each definition in the single source → the module that has it, and its name there; empty for a
            package that was read from its folder.
        remarks: which definitions are in another file than in the original, and why.
    """

    files: Mapping[str, str]
    homes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def original_files(self) -> dict[str, str]:
        """The files that are not copied from port."""
        return {file: text for file, text in self.files.items() if file != file_of(COPIES)}

    @property
    def own_text(self) -> str:
        """The text of these files, joined for searching; not executable."""
        return "\n\n".join(self.original_files.values())


def distributed(
    source: str,
    originals: Mapping[str, OriginalDefinition],
    *,
    root: str,
    name: str,
    title: str,
    arguments: Iterable[str] = (),
) -> WrittenPackage:
    """Distribute a source over the files of a package.

    A definition that has no file in the original goes to the file that needs it first, or to the root's.

    Args:
        source: the single source.
        originals: the name of each generated definition → its original.
        root: name of the root's class.
        name: name of the generated module: of the files beside the package, and of the root's file if it has none.
        title: the first line of the package's docstring.
        arguments: the expressions that the root is constructed with; the package exports the classes that they use.
    """
    return _Distributing(source, originals, root, name, title, arguments).package()


class _Distributing:
    def __init__(
        self,
        source: str,
        originals: Mapping[str, OriginalDefinition],
        root: str,
        name: str,
        title: str,
        arguments: Iterable[str],
    ) -> None:
        self.originals, self.root, self.title, self.remarks = originals, root, title, list[str]()
        self.arguments = [ast.parse(text) for text in arguments]
        self.source = Module("", source, lambda _: False)
        first = source[: source.rfind(MODEL)].count("\n") if MODEL in source else 0
        self.copies = [each for each in self.source.definitions if each.lines[0] <= first]
        self.definitions = self.source.definitions[len(self.copies) :]
        self.number = {bound: place for place, each in enumerate(self.definitions) for bound in each.binds}
        self.uses = [self._used(definition) for definition in self.definitions]
        placed = self._placed(name)
        self.places = joined_places(placed, self.uses, placed[self.number[root]])
        self._remark_on_joined_files(placed)
        self.names = names_in_files(self.source, self._by_place(), self._own_names(), set(self._imported_names()))

    def package(self) -> WrittenPackage:
        """Return the package with its files."""
        files = {place: self._text(place, definitions) for place, definitions in self._by_place().items()}
        if self.copies:
            last = self.copies[-1].lines[1]
            files[COPIES] = formatted(_docstring("Copied from port.") + _without_docstring(self.source, last))
        folders = {(), *(folder for place in files for folder in folders_of(place))}
        for folder in folders:
            files.setdefault(
                (*folder, INIT), _docstring(f"{'.'.join(folder)}, translated from PyTorch to Flax NNX.").rstrip() + "\n"
            )
        files[(INIT,)] = self._top(files[(INIT,)])
        homes = {bound: (dotted_place(COPIES), bound) for each in self.copies for bound in each.binds}
        for bound, number in self.number.items():
            homes[bound] = (dotted_place(self.places[number]), self.names.get(bound, bound))
        return WrittenPackage({file_of(place): files[place] for place in sorted(files)}, homes, tuple(self.remarks))

    # %% Files of definitions

    def _used(self, definition: Definition) -> list[int]:
        """Return the numbers of the other definitions that a definition reads."""
        read = {name.id for name in definition.names.found} - definition.binds
        return sorted({self.number[name] for name in read if name in self.number})

    def _placed(self, name: str) -> list[FilePlace]:
        """Return each definition's file, before circular imports are resolved."""
        known = [self.originals.get(next(iter(each.binds), "")) for each in self.definitions]
        files = {one.file: one.module for one in known if one is not None and one.file is not None}
        places = places_of(files, reserved=[f"test_{name}", *(COPIES if self.copies else ())])
        found = [None if one is None or one.file is None else places[one.file] for one in known]
        root = self.number[self.root]
        if found[root] is None:
            others = {*places.values(), *(folder for place in places.values() for folder in folders_of(place))}
            found[root] = free_place((name,), others)
        for number in reversed(range(len(found))):
            if found[number] is None:
                users = (found[user] for user, used in enumerate(self.uses) if number in used)
                found[number] = next((place for place in users if place is not None), found[root])
        made = [place for place in found if place is not None]
        self._remark_missing_files({each: place for each, place in zip(known, made, strict=True) if each is not None})
        return made

    def _by_place(self) -> dict[FilePlace, list[Definition]]:
        made: dict[FilePlace, list[Definition]] = {}
        for definition, place in zip(self.definitions, self.places, strict=True):
            made.setdefault(place, []).append(definition)
        return made

    def _remark_missing_files(self, placed: Mapping[OriginalDefinition, FilePlace]) -> None:
        for original, place in placed.items():
            if original.file is None and original.is_own:
                self.remarks.append(f"{original.module}.{original.name} is in no file: {file_of(place)} has it")

    def _remark_on_joined_files(self, placed: Iterable[FilePlace]) -> None:
        joined: dict[FilePlace, dict[FilePlace, None]] = {}
        for before, place in zip(placed, self.places, strict=True):
            joined.setdefault(place, {})[before] = None
        for place, several in joined.items():
            if len(several) > 1:
                files = " and ".join(map(file_of, several))
                self.remarks.append(f"{files} need each other, and imports go one way: {file_of(place)} has it all")

    # %% Names

    def _own_names(self) -> dict[str, str]:
        return {name: original.name for name, original in self.originals.items() if name in self.number}

    def _imported_names(self) -> Iterable[str]:
        for statement in self._imports():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        yield from (bound for definition in self.copies for bound in definition.binds)

    def _imports(self) -> list[Import]:
        return [node for node in self.source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]

    # %% Texts

    def _text(self, place: FilePlace, definitions: list[Definition]) -> str:
        parts = [self._written(definition, place) for definition in definitions]
        head = [_FUTURE, *map(ast.unparse, self._imports()), *self._relative_imports(place, definitions)]
        known = [self.originals[name] for each in definitions for name in each.binds & {*self.originals}]
        modules = " and ".join(dict.fromkeys(one.module for one in known if one.file is not None))
        title = f"{modules}, translated from PyTorch to Flax NNX." if modules else self.title
        return formatted(_docstring(title) + "\n".join(head) + "\n\n\n" + "\n\n\n".join(parts) + "\n")

    def _written(self, definition: Definition, place: FilePlace) -> str:
        """Return the text of a definition in its file."""
        here = {name for name in self.names if self.places[self.number[name]] == place}
        new: dict[ast.expr, str] = {name: self.names[name.id] for name in definition.names.found if name.id in here}
        own = {name: self.names.get(name, name) for name in definition.binds}
        text = edited(self.source.text, in_text(self.source.text, definition.node, new, own), definition.lines)
        return text.replace(_BESIDE, f"Path(__file__).parents[{len(place) - 1}].joinpath(") if len(place) > 1 else text

    def _relative_imports(self, place: FilePlace, definitions: Iterable[Definition]) -> list[str]:
        read = {name.id: None for each in definitions for name in each.names.found}
        lines = []
        for name in read:
            if name in self.number and (there := self.places[self.number[name]]) != place:
                lines.append(_import(relative_module(there, place), self.names.get(name, name), name))
        copied = {bound for each in self.copies for bound in each.binds}
        return lines + [_import(relative_module(COPIES, place), name, name) for name in read if name in copied]

    def _top(self, text: str) -> str:
        """Return the text of the package's ``__init__``: it exports the root, ``load``, and what both are built of."""
        root = self.places[self.number[self.root]]
        if root == (INIT,):
            return text
        used = {node.id for tree in self.arguments for node in ast.walk(tree) if isinstance(node, ast.Name)}
        exported = [self.root]
        if "load" in self.number:
            exported.append("load")
            used |= {name for name, number in self.number.items() if number in self.uses[self.number["load"]]}
        exported += [name for name in self.number if name in used and name not in exported]
        lines = []
        for name in exported:
            home = self.places[self.number[name]]
            if home != (INIT,):
                lines.append(_import(relative_module(home, (INIT,)), self.names.get(name, name), name))
        shown = f"__all__ = [{', '.join(repr(name) for name in sorted(exported))}]\n"
        has_own = any(place == (INIT,) for place in self.places)
        head = f"{text}\n\n" if has_own else _docstring(self.title)
        return formatted(head + "\n".join(lines) + "\n\n" + shown)


def _docstring(title: str) -> str:
    return f'"""{title}"""\n\n'


def _without_docstring(source: Module, last: int) -> str:
    lines = source.text.splitlines(keepends=True)
    first = source.tree.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "".join(lines[(first.end_lineno or 0) if is_text else 0 : last])


def _import(module: str, name: str, here: str) -> str:
    return f"from {module} import {name}" + ("" if here == name else f" as {here}")
