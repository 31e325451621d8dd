"""A written folder that needs no port: what its files take from there is copied into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from port.translation.codegen.vendor.copying import with_own_copies

Finish = Callable[[Path], object]
"""What is done to the files of a folder before they are proved."""
OTHERS = ("original.py", "torch_loss.py")
"""They take nothing from port."""


def no_change(folder: Path) -> None:
    """Leave the files as they are."""


def make_standalone(folder: Path) -> None:
    """Copy into the files of a written folder what they import from port; they are formatted again.

    A file that imports nothing from there stays as it is, so that it may be called whenever files have been added.

    Raises:
        UsageError: something cannot be copied; says what, where and why.
    """
    from port.translation.codegen.emit import formatted

    for path in sorted(folder.glob("*.py")):
        text = path.read_text("utf-8")
        if path.name not in OTHERS and (whole := with_own_copies(text)) != text:
            path.write_text(formatted(whole), "utf-8")
