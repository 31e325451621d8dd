"""The reference: every public name, its signature and docstring, read by griffe without importing the packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import griffe

import port

ROOT = Path(port.__file__).parent
ROOMS = (
    "port",
    "port.nn",
    "port.nn.functional",
    "port.transforms",
    "port.optim",
    "port.weights",
    "port.mapping",
    "port.moves",
    "port.pairs",
    "port.matching",
    "port.parity",
    "port.translation",
    "port.random",
    "port.data",
    "port.records",
    "port.judging",
    "port.training",
    "port.scripts",
    "port.lessons",
    "port.report",
    "port.errors",
)
"""The packages that are documented, in the reference's order."""
LONGEST_VALUE = 120  # characters of a constant that are shown
WIDTH = 88  # columns of a signature on one line


def first_paragraph(texts: tuple[str, ...]) -> str:
    """Return the first paragraph on one line; empty if there is no text."""
    return " ".join(texts[0].partition("\n\n")[0].split()) if texts else ""


@dataclass(frozen=True)
class Described:
    """A list in a docstring: parameters, attributes, errors or return values.

    Attributes:
        title: the list's title, such as "Parameters".
        rows: the name, the type and the description (Markdown) of each item.
    """

    title: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class PublicName:
    """A class, a function or a value in a package's public interface.

    Attributes:
        name: the name for import: "port.nn.BatchNorm".
        kind: "class", "function" or "attribute".
        signature: the call signature, or the value; empty if neither is informative.
        texts: the paragraphs of its docstring, in Markdown.
        described: the docstring's lists.
        file: the source's path, from ``port``.
        line: the line of the definition.
        arguments: the signature's, each with its type and default.
        methods: a class's public methods that have a docstring.
    """

    name: str
    kind: str
    signature: str
    arguments: tuple[str, ...]
    texts: tuple[str, ...]
    described: tuple[Described, ...]
    file: str
    line: int
    methods: tuple[PublicName, ...] = ()

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """The docstring's first paragraph."""
        return first_paragraph(self.texts)

    def signature_lines(self) -> list[str]:
        """Return the signature, with one argument per line if a single line would be too long."""
        if len(self.signature) <= WIDTH or not self.arguments:
            return [self.signature]
        before, _, _ = self.signature.partition("(")
        after = self.signature[len(before) + len(", ".join(self.arguments)) + 2 :]
        return [f"{before}(", *(f"    {argument}," for argument in self.arguments), f"){after}"]


@dataclass(frozen=True)
class Room:
    """The page of one package.

    Attributes:
        name: "port.nn".
        texts: the paragraphs of its docstring, in Markdown.
        names: the public names, sorted.
    """

    name: str
    texts: tuple[str, ...]
    names: tuple[PublicName, ...]

    @property
    def path(self) -> str:
        """The page's path from the site's folder."""
        return f"reference/{self.name}.html"

    def all_names(self) -> Iterator[PublicName]:
        """Yield the public names, each followed by its methods."""
        for one in self.names:
            yield one
            yield from one.methods

    @property
    def summary(self) -> str:
        """The docstring's first paragraph."""
        return first_paragraph(self.texts)


@cache
def reference() -> tuple[Room, ...]:
    """Return every documented package with all its public names."""
    return tuple(map(_room, ROOMS))


def _room(name: str) -> Room:
    module = _module(name)
    texts, _ = _docstring(module)
    shown = module.exports
    public = map(str, shown) if shown is not None else _defined(module)
    return Room(
        name, texts, tuple(_public(f"{name}.{one}", _found(name, one)) for one in sorted(public, key=str.lower))
    )


def _defined(module: griffe.Module) -> Iterator[str]:
    """Yield the public names that a module without ``__all__`` defines itself."""
    return (name for name, member in module.members.items() if not name.startswith("_") and not member.is_alias)


@cache
def _module(name: str) -> griffe.Module:
    path = _file(name)
    assert path is not None, name
    return griffe.visit(name, filepath=path, code=path.read_text("utf-8"), docstring_parser=griffe.Parser.google)


def _file(module: str) -> Path | None:
    """Return a module's source file."""
    path = ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _found(module: str, name: str) -> griffe.Object:
    """Return the definition of a name that a module exports: imports are followed."""
    member = _module(module).members.get(name)
    if member is None or not member.is_alias:
        if member is None and _file(f"{module}.{name}"):
            return _module(f"{module}.{name}")
        assert isinstance(member, griffe.Object), f"{module} exports {name}, and does not define it"
        return member
    assert isinstance(member, griffe.Alias)
    home, _, defined = member.target_path.rpartition(".")
    if _file(member.target_path):  # one of our modules
        return _module(member.target_path)
    return _found(home, defined)


def _public(name: str, found: griffe.Object) -> PublicName:
    texts, described = _docstring(found)
    file = Path(str(found.filepath)).relative_to(ROOT).as_posix()
    methods: tuple[PublicName, ...] = ()
    if isinstance(found, griffe.Class):
        methods = tuple(_public(f"{name}.{one.name}", one) for one in _methods(found))
    arguments = _arguments(found)
    signature = _signature(found, arguments)
    return PublicName(name, found.kind.value, signature, arguments, texts, described, file, _line(found), methods)


def _line(found: griffe.Object) -> int:
    """Return the line of the definition, below its decorators."""
    decorators = found.decorators if isinstance(found, griffe.Class | griffe.Function) else ()
    return max((one.endlineno + 1 for one in decorators if one.endlineno), default=found.lineno or 1)


def _methods(found: griffe.Class) -> Iterator[griffe.Object]:
    for name, member in found.members.items():
        if not name.startswith("_") and isinstance(member, griffe.Function) and member.docstring is not None:
            yield member


def _signature(found: griffe.Object, arguments: tuple[str, ...]) -> str:
    match found:
        case griffe.Class():
            return f"{found.name}({', '.join(arguments)})" if arguments else ""
        case griffe.Function():
            result = "" if found.returns is None else f" -> {found.returns}"
            return f"{found.name}({', '.join(arguments)}){result}"
        case griffe.Attribute(value=value) if value is not None and len(str(value)) <= LONGEST_VALUE:
            return f"{found.name} = {value}"
    return ""


def _arguments(found: griffe.Object) -> tuple[str, ...]:
    """Return the arguments of a function or a class."""
    if isinstance(found, griffe.Class):
        made = found.members.get("__init__")
        if made is None and any("dataclass" in str(decorator.value) for decorator in found.decorators):
            return tuple(_fields(found))
        return tuple(_parameters(made)) if isinstance(made, griffe.Function) else ()
    return tuple(_parameters(found)) if isinstance(found, griffe.Function) else ()


def _fields(found: griffe.Class) -> Iterator[str]:
    """Yield a dataclass's fields as arguments."""
    for one in found.members.values():
        if isinstance(one, griffe.Attribute) and one.annotation is not None and "ClassVar" not in str(one.annotation):
            yield f"{one.name}: {one.annotation}" + ("" if one.value is None else f" = {one.value}")


def _parameters(function: griffe.Function) -> Iterator[str]:
    kinds = griffe.ParameterKind
    marks = {kinds.var_positional: "*", kinds.var_keyword: "**"}
    starred = False
    for one in function.parameters:
        if one.name in ("self", "cls"):
            continue
        if one.kind is kinds.keyword_only and not starred:
            yield "*"
        starred = starred or one.kind in (kinds.keyword_only, kinds.var_positional)
        said = f"{marks.get(one.kind, '')}{one.name}"
        said += "" if one.annotation is None else f": {one.annotation}"
        yield said if one.default is None or one.kind in marks else f"{said} = {one.default}"


TITLES = {
    "parameters": "Parameters",
    "attributes": "Attributes",
    "raises": "Raises",
    "returns": "Returns",
    "yields": "Yields",
}


def _docstring(found: griffe.Object) -> tuple[tuple[str, ...], tuple[Described, ...]]:
    texts: list[str] = []
    lists: list[Described] = []
    if found.docstring is None:
        return (), ()
    for section in found.docstring.parse(griffe.Parser.google, warnings=False):
        title = TITLES.get(section.kind.value)
        if title is not None:
            lists.append(Described(title, tuple(map(_row, section.value))))
        elif isinstance(section.value, str):
            texts.append(section.value)
        else:  # "Note:" and the like: a titled paragraph
            texts.append(str(getattr(section.value, "contents", getattr(section.value, "description", ""))))
    return tuple(texts), tuple(lists)


def _row(one: Any) -> tuple[str, str, str]:
    annotation = getattr(one, "annotation", None)
    name = str(getattr(one, "name", "") or "")
    return name, "" if annotation is None else str(annotation), str(one.description)
