"""Import the written source as a Python module."""

from __future__ import annotations

import linecache
import sys
from itertools import count
from types import ModuleType

LABEL = "_translated_"
"""It stands in the file names that tracebacks show of the sources."""

MODEL = "# %% The model"
"""The line of a standalone source behind which it is not copied from port any more."""

_numbers = count()


def loaded(source: str, name: str) -> ModuleType:
    """A Python module of the source; tracebacks show its lines."""
    label = f"{name}{LABEL}{next(_numbers)}"
    module = ModuleType(label)
    module.__file__ = f"<{label}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    sys.modules[label] = module  # where a dataclass looks what its annotations say
    try:
        exec(compile(source, module.__file__, "exec"), vars(module))
    finally:
        del sys.modules[label]
    return module
