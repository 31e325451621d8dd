"""The written source as a living module."""

from __future__ import annotations

import linecache
from itertools import count
from types import ModuleType

LABEL = "_translated_"
"""It stands in the file names that tracebacks show of the sources."""

_numbers = count()


def loaded(source: str, name: str) -> ModuleType:
    """A Python module of the source; tracebacks show its lines."""
    label = f"{name}{LABEL}{next(_numbers)}"
    module = ModuleType(label)
    module.__file__ = f"<{label}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    exec(compile(source, module.__file__, "exec"), vars(module))
    return module
