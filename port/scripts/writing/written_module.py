"""A written train_step.py as a module, while it is compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from port.scripts.imported_file import import_file

NAME = "written_train_step"


@contextmanager
def written_module(folder: Path, beside: Sequence[str]) -> Iterator[Any]:
    """Within it, the written train_step.py can be used; what it imports is this folder's own.

    Args:
        folder: that was written.
        beside: names of the modules in it that train_step.py imports.
    """
    before = {name: sys.modules.pop(name) for name in beside if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield import_file(folder / "train_step.py", NAME)
    finally:
        sys.path.remove(str(folder))
        for name in (NAME, *beside):
            sys.modules.pop(name, None)
        sys.modules.update(before)
