"""Import a file of a written folder as a module."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def import_file(file: Path, name: str) -> Any:
    """Import a file under a name; it stays in ``sys.modules``, where dataclasses and pickle look for it.

    Args:
        file: the source file.
        name: the module's name; replaces an earlier import of the same name.
    """
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
