"""The site as a folder: written whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from port.errors import UsageError
from port.report.site.pages import pages
from port.report.site.reading import Reading

MARK = "search_index.js"  # a folder that holds one is an earlier site


def write_site(readings: Sequence[Reading], folder: Path) -> Path:
    """Write the tour as a static site, which needs no server; returns its first page.

    A folder that holds an earlier site is replaced; another one has to be empty.

    Raises:
        UsageError: there is something else in the folder, or it cannot be written.
    """
    folder = folder.resolve()  # a link stays one
    if folder.is_file():
        raise UsageError(f"{folder} is a file; give a folder for the site")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(f"{folder} holds other things than an earlier site; give a new folder, or an empty one")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        for path, text in pages(readings):
            page = made / path
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
        made.chmod(0o755)  # mkdtemp's is for its owner alone
        _put(made, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder / "index.html"


def _put(made: Path, folder: Path) -> None:
    """Rename one folder to another, which is kept until that is done."""
    earlier = made.with_name(f"{made.name}.earlier")
    if folder.exists():
        folder.rename(earlier)
    try:
        made.rename(folder)
    except BaseException:
        if earlier.exists():
            earlier.rename(folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
