"""Write a generated package to disk, and read it back."""

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
    """Read the package in a folder.

    Args:
        folder: a folder that ``port translate --package`` wrote.
        name: the written module's name; its test is not part of the package.

    Raises:
        BrokenWeights: a file cannot be read, or the folder is not a package.
    """
    texts = {}
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder)
        # Hidden folders and caches are not packages, and Python cannot import files with such names.
        if all(part.isidentifier() for part in file.with_suffix("").parts) and file.as_posix() != f"test_{name}.py":
            try:
                texts[file.as_posix()] = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BrokenWeights(f"the source {path} cannot be read: {error}") from error
    if "__init__.py" not in texts:
        raise BrokenWeights(f"{folder} is not a package: it has no __init__.py")
    return WrittenPackage(texts)


def name_in(folder: Path) -> str:
    """Return the name of the written module in a package's folder, which is that of its mapping file.

    Raises:
        BrokenWeights: the folder does not have exactly one mapping file.
    """
    found = sorted(path.name.removesuffix(_MAPPING) for path in folder.glob(f"*{_MAPPING}"))
    if len(found) != 1:
        raise BrokenWeights(f"{folder} holds {len(found)} mappings (NAME{_MAPPING}), but a written package has one")
    return found[0]
