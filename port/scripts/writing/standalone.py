"""Make a written folder independent of port: copy what its files import from port into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from port.translation.codegen.vendor.copying import with_own_copies

Finish = Callable[[Path], object]
"""A change to the files of a folder before they are proved."""
OTHERS = ("original.py", "torch_loss.py")
"""Files that import nothing from port."""


def no_change(folder: Path) -> None:
    """Leave the files unchanged."""


def make_standalone(folder: Path) -> None:
    """Copy what a written folder's files import from port into them, and format them again.

    A file that imports nothing from port stays unchanged, so this may be called whenever files have been added.

    Raises:
        UsageError: something cannot be copied; the message says what, where and why.
    """
    from port.translation.codegen.emit import formatted

    for path in sorted(folder.glob("*.py")):
        text = path.read_text("utf-8")
        if path.name not in OTHERS and (whole := with_own_copies(text)) != text:
            path.write_text(formatted(whole), "utf-8")
