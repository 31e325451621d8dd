"""The files of a written package on disk: where they go, and how they are read back."""

from __future__ import annotations

from pathlib import Path

from port.errors import BrokenWeights
from port.translation.codegen.packages import WrittenPackage

_MAPPING = ".mapping.toml"


def write_package(package: WrittenPackage, folder: Path) -> None:
    """Write the files of a package into its folder."""
    for file, text in package.files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")


def read_package(folder: Path, name: str) -> WrittenPackage:
    """The package in a folder.

    Args:
        folder: that ``port translate --package`` wrote.
        name: of the written module, whose test is no part of it.

    Raises:
        BrokenWeights: a file cannot be read, or the folder is no package.
    """
    texts = {}
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder)
        # A folder that is hidden, or a cache, is no package; nor can Python import a file with such a name.
        if all(part.isidentifier() for part in file.with_suffix("").parts) and file.as_posix() != f"test_{name}.py":
            try:
                texts[file.as_posix()] = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BrokenWeights(f"the source {path} cannot be read: {error}") from error
    if "__init__.py" not in texts:
        raise BrokenWeights(f"{folder} is no package: it has no __init__.py")
    return WrittenPackage(texts)


def name_in(folder: Path) -> str:
    """The name of the written module in a package's folder: the one that its mapping has.

    Raises:
        BrokenWeights: there is none, or are several.
    """
    found = sorted(path.name.removesuffix(_MAPPING) for path in folder.glob(f"*{_MAPPING}"))
    if len(found) != 1:
        raise BrokenWeights(f"{folder} holds {len(found)} mappings (NAME{_MAPPING}), and a written package has one")
    return found[0]
