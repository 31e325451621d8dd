"""Which files a page may replace: earlier pages, and nothing that somebody else wrote."""

from __future__ import annotations

import os
from pathlib import Path

from port.errors import FolderExists, UsageError

MARKS = (b'<meta name="generator" content="port">', b"<footer>Written by <code>port</code>.")
"""What a page says of itself: in its head, or, before there was a mark for it there, at its foot."""


def check_page(path: Path) -> None:
    """Check that a page can be written to a file, before the work for it is done.

    Raises:
        UsageError: the name does not end with .html.
        FolderExists: there is something of this name, and it is no page that this package wrote.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"the name of a page ends with .html; got {path}")
    if os.path.exists(path) and not is_page(path):
        raise FolderExists(
            f"{path} is there already, and is no page that port wrote: choose another name, or remove it"
        )


def is_page(path: Path) -> bool:
    """Whether a file is a page of a run, or of several."""
    try:
        written = path.read_bytes()
    except OSError:
        return False
    return any(mark in written for mark in MARKS)
