"""Write a translation to a folder: source, weights, mapping, the test that proves it again, and the report."""

from __future__ import annotations

import keyword
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from port.errors import FolderExists, UsageError
from port.mapping import save_mapping
from port.named import SIGN
from port.translation.artifact.package_files import write_package
from port.translation.artifact.weights_file import write_tables, write_weights
from port.translation.codegen.emit import formatted
from port.translation.codegen.vendor import with_own_copies
from port.translation.result import Translation
from port.weights.whole import whole


@dataclass(frozen=True)
class Original:
    """How the generated test rebuilds the original.

    Attributes:
        target: ``package.module:name`` of the class or function that makes it, or of the module itself.
        arguments: its arguments, as `port.named.spelled_arguments` returns them; None where the target is the module
            itself.
        shapes: the shapes of example inputs, as `port.translation.frontend.example_inputs.drawn` takes them.
        inputs: instead of shapes, ``package.module:name`` of the callable that returns the inputs.
        submodule: the path of the part that was translated.
    """

    target: str
    arguments: Any = field(default_factory=dict)
    shapes: tuple[str, ...] = ()
    inputs: str | None = None
    submodule: str | None = None

    def __str__(self) -> str:
        return f"{self.target}, its part {self.submodule}" if self.submodule else self.target


def file_name(wanted: str) -> str:
    """Return a module name that hides no other module: ``resnet18``, or ``net_flax`` where there is a ``net``.

    Args:
        wanted: the original's name.
    """
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in wanted).strip("_").lower()
    name = name or "model"
    name = f"model_{name}" if name[0].isdigit() else name
    return f"{name}_flax" if _hides(name) else name


def check_name(name: str) -> str:
    """Check a module name that the user chose, and return it.

    Raises:
        UsageError: it cannot be imported, or another module has that name.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"the written file is imported by its name, and {name!r} is not a valid name in Python")
    if _hides(name):
        raise UsageError(
            f"the written file would hide another module named {name} wherever its folder is on Python's path: choose "
            "another name"
        )
    return name


def _hides(name: str) -> bool:
    if name in sys.stdlib_module_names or keyword.iskeyword(name):
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def check_folder(folder: Path) -> None:
    """Check that a folder can be written, before the work for it is done.

    Raises:
        FolderExists: there is something of this name.
        UsageError: what it would lie in is a file, or a folder that must not be written to.
    """
    if os.path.lexists(folder):
        raise FolderExists(f"{folder} is there already: choose another folder (-o), or remove that one")
    above = next(parent for parent in folder.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise UsageError(f"{folder} cannot be written: {above} is a file, not a folder. Choose another folder (-o)")
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: no files may be made in {above}. Choose another folder (-o)")


def check_package_folder(folder: Path) -> None:
    """Check that a folder can be written as a package, which is imported by its name.

    Raises:
        FolderExists: there is something of this name.
        UsageError: its name cannot be imported, or would hide another module.
    """
    check_folder(folder)
    folder = folder.absolute()
    if not folder.name.isidentifier() or keyword.iskeyword(folder.name):
        raise UsageError(
            f"a package is imported by its folder's name, and {folder.name!r} is not a valid name in Python"
        )
    if folder.parent in {Path(path).absolute() for path in sys.path} and _hides(folder.name):
        raise UsageError(
            f"the package {folder} would hide another module named {folder.name}: choose another folder (-o)"
        )


def write_folder(
    translation: Translation,
    folder: Path | str,
    *,
    name: str,
    original: Original | None = None,
    report: str = "",
    generates: bool = False,
) -> list[Path]:
    """Write a translation to a new folder, completely or not at all.

    Args:
        translation: made with this ``name``, under which its ``load`` looks for the weights.
        folder: the folder, which must not exist.
        name: the name of the written module: NAME.py, NAME.safetensors, NAME.mapping.toml, test_NAME.py, and
            NAME.tables.safetensors if a new module starts with tables. A module on the meta device gets neither weights
            nor test. A package's files replace NAME.py.
        original: how the generated test rebuilds the original; without it no test is written.
        report: the text of report.md; without it none is written.
        generates: whether to write generate.py, for a language model with caches.

    Returns:
        The files, sorted.

    Raises:
        FolderExists: there is something of this name.
        UsageError: what it would lie in is a file, or a folder that must not be written to.
        BrokenWeights: the folder cannot be written.
    """
    folder = Path(folder)
    check_folder(folder) if translation.package is None else check_package_folder(folder)
    with whole(folder, overwrite=False, may_replace=lambda _: False, what="the translation") as temporary:
        temporary.mkdir()
        texts = {} if translation.package is not None else {f"{name}.py": translation.source}
        if original is not None and translation.has_weights:
            texts[f"test_{name}.py"] = test_source(name, original, package=translation.package is not None)
        if report:
            texts["report.md"] = report
        if generates:
            texts["generate.py"] = generation_source(name, translation)
        for file, text in texts.items():
            (temporary / file).write_text(text, "utf-8", newline="\n")
        if translation.package is not None:
            write_package(translation.package, temporary)
        save_mapping(translation.mapping, temporary / f"{name}.mapping.toml")
        if translation.has_weights:
            write_weights(translation, temporary / f"{name}.safetensors")
        if translation.tables:
            write_tables(translation, temporary / f"{name}.tables.safetensors")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def generation_source(name: str, translation: Translation) -> str:
    """Return the source of generate.py."""
    text = _template("generate.py.jinja").render(
        name=name,
        model=translation.name,
        has_caches="TokenCache(" in translation.source,
        standalone=translation.standalone,
    )
    return formatted(with_own_copies(text) if translation.standalone else text)


def test_source(name: str, original: Original, *, package: bool = False) -> str:
    """Return the source of the test that proves a written module, or its package, again."""
    imports: list[str] = []
    call = None if original.arguments is None else _called(original.arguments, imports)
    text = _template("proof_again.py.jinja").render(
        name=name,
        package=package,
        original=original,
        built=_imported(original.target, "original"),
        example_inputs=None if original.inputs is None else _imported(original.inputs, "example_inputs"),
        call=call,
        imports=imports,
    )
    return formatted(text)


test_source.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


def _imported(reference: str, alias: str) -> dict[str, str]:
    """Return an import of ``pkg.mod:Outer.Inner`` under an alias, and the expression for it."""
    module, _, attributes = reference.partition(":")
    first, dot, inner = attributes.partition(".")
    name = f"{alias}_holder" if dot else alias
    return {"statement": f"from {module} import {first} as {name}", "expression": f"{name}{dot}{inner}"}


def _called(arguments: Any, imports: list[str]) -> str:
    """Return the parenthesised arguments of a call, and add what they name to the imports."""
    if isinstance(arguments, str):
        named = _written(arguments, imports)
        return f"(**{named}() if callable({named}) else {named})"
    if all(key.isidentifier() and not keyword.iskeyword(key) for key in arguments):
        return "(" + ", ".join(f"{key}={_written(value, imports)}" for key, value in arguments.items()) + ")"
    return f"(**{_written(arguments, imports)})"


def _written(value: Any, imports: list[str]) -> str:
    """Return the source of an argument, and add what it names to the imports."""
    match value:
        case str() if value.startswith(SIGN):
            imported = _imported(value.removeprefix(SIGN), f"argument{len(imports) + 1}")
            imports.append(imported["statement"])
            return imported["expression"]
        case dict() if len(value) == 1 and next(iter(value)).startswith(SIGN):
            [(name, arguments)] = value.items()
            return _written(name, imports) + _called(arguments, imports)
        case dict():
            return "{" + ", ".join(f"{key!r}: {_written(item, imports)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_written(item, imports) for item in value) + "]"
        case _:
            return repr(value)


@cache
def _template(file: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((files("port.translation") / file).read_text("utf-8"))
