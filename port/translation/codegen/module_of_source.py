"""Import generated source as a Python module."""

from __future__ import annotations

import linecache
import sys
from itertools import count
from types import ModuleType

LABEL = "_translated_"
"""Part of the file name that tracebacks show for generated sources."""

MODEL = "# %% The model"
"""The line that separates the copies from port and the model in a standalone source."""

_numbers = count()


def loaded(source: str, name: str) -> ModuleType:
    """Execute the source as a module; tracebacks show its lines."""
    label = f"{name}{LABEL}{next(_numbers)}"
    module = ModuleType(label)
    module.__file__ = f"<{label}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    sys.modules[label] = module  # a dataclass resolves its annotations there
    try:
        exec(compile(source, module.__file__, "exec"), vars(module))
    finally:
        del sys.modules[label]
    return module
