"""One torch module for all that a script trains: a class of the written torch_loss.py, or its models by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from port.scripts.imported_file import import_file

FILE = "torch_loss.py"


def torch_loss(file: Path) -> Any:
    """Import a written torch_loss.py; its classes compute the losses from a batch."""
    try:
        return import_file(file, file.stem)
    finally:
        sys.modules.pop(file.stem, None)


def together(models: Mapping[str, nn.Module]) -> nn.Module:
    """One module that holds several by name."""
    found = nn.Module()
    for name, model in models.items():
        found.add_module(name, model)
    return found
