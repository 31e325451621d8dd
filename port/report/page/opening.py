"""Open a page in the user's browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from rich.console import Console


def open_page(path: Path, console: Console) -> None:
    """Open a page in a browser; if there is none, print the page's path."""
    try:
        opened = webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        console.print(f"no browser could be opened; the page is {path.resolve()}", soft_wrap=True, markup=False)
