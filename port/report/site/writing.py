"""The site as a folder: all pages are made before the first one is put in its place."""

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
"""Names the files that are ours: an earlier site's are replaced or removed, and nothing else is touched."""


def write_site(readings: Sequence[Reading], folder: Path) -> Path:
    """Write the tour as a static site, which needs no server; returns its first page.

    A folder that holds an earlier site is brought up to date, and what else is in it stays; another one has to be
    empty.

    Raises:
        UsageError: there is something else in the folder, or it cannot be written.
    """
    folder = folder.absolute()
    if folder.is_file():
        raise UsageError(f"{folder} is a file; give a folder for the site")
    is_new = not folder.exists()
    try:
        earlier = _earlier(folder)
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".site-", dir=folder))  # in the folder: no other may be written, or near
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
    """The files of the site that the folder holds.

    Raises:
        UsageError: it holds other things, and no site.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return set()
    try:
        named = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        named = None
    if not isinstance(named, list):
        raise UsageError(f"{folder} holds other things than an earlier site; give a new folder, or an empty one")
    return {name for name in named if isinstance(name, str) and _is_inside(name)}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _remove(folder: Path, names: set[str]) -> None:
    """Files that are no longer of the site, and folders that were only for them."""
    for name in names:
        path = folder / name
        if path.is_file():
            path.unlink()
        for parent in path.parents:
            if parent == folder or not parent.is_dir() or any(parent.iterdir()):
                break
            parent.rmdir()
