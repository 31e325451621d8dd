"""A file of a written folder as a module."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def import_file(file: Path, name: str) -> Any:
    """Import it under a name; it stays in ``sys.modules``, where dataclasses and pickle look for it.

    Args:
        file: it.
        name: hides what was imported under it before.
    """
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
