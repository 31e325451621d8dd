"""Names that a written folder's files read, and that nothing in them defines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def undefined_names(folder: Path) -> str:
    """Each on a line, with where it is; nothing where there are none."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821", str(folder)]
    return subprocess.run([*command, "--output-format", "concise"], capture_output=True, text=True, check=False).stdout
