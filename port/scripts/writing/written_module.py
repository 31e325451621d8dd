"""Import a written train_step.py as a module while it is compared."""

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
    """Within this context, the written train_step.py is imported, with its imports from the same folder.

    Args:
        folder: the written folder.
        beside: names of the folder's modules that train_step.py imports.
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
