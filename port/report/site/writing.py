"""Write the site into a folder: all pages are made before the first one is moved into place."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from port.errors import UsageError
from port.report.site.pages import pages
from port.report.site.reading import Reading

MANIFEST = "site.json"
"""A file that lists the site's files: those of an earlier site are replaced or removed; other files are kept."""


def write_site(readings: Sequence[Reading], folder: Path) -> Path:
    """Write the tour as a static site, which needs no server, and return its first page.

    A folder with an earlier site is updated, and its other files are kept. Any other folder must be empty.

    Raises:
        UsageError: the folder holds other files but no site, or it cannot be written.
    """
    folder = folder.absolute()
    if folder.is_file():
        raise UsageError(f"{folder} is a file; choose a folder for the site")
    is_new = not folder.exists()
    try:
        earlier = _earlier(folder)
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".site-", dir=folder))  # others may be read-only
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        written = []
        for path, text in pages(readings):
            page = made / path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
            written.append(path)
        (made / MANIFEST).write_text(json.dumps({"files": written}, indent=1) + "\n", "utf-8")
        for path in [*written, MANIFEST]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).replace(folder / path)
        _remove(folder, earlier - set(written))
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
    return folder / "index.html"


def _earlier(folder: Path) -> set[str]:
    """Return the files of the site in the folder.

    Raises:
        UsageError: the folder holds other files but no site.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return set()
    try:
        named = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        named = None
    if not isinstance(named, list):
        raise UsageError(f"{folder} holds other files but no earlier site; choose a new folder or an empty one")
    return {name for name in named if isinstance(name, str) and _is_inside(name)}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _remove(folder: Path, names: set[str]) -> None:
    """Remove files that the site no longer has, and folders that this leaves empty."""
    for name in names:
        path = folder / name
        if path.is_file():
            path.unlink()
        for parent in path.parents:
            if parent == folder or not parent.is_dir() or any(parent.iterdir()):
                break
            parent.rmdir()
