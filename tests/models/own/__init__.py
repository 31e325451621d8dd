"""A person's own package, ``my_pkg``, which `port` does not know, in PyTorch and in JAX. The README's pairs join it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from port.pairs import register, registered

FOLDER = Path(__file__).parent
_README = FOLDER.parents[2] / "README.md"


def readme_pairs() -> str:
    """The file of pairs that stands in the README."""
    section = _README.read_text().partition("## What is your own\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ") or not line.strip()]
    return textwrap.dedent("\n".join(lines)).strip() + "\n"


@contextmanager
def own_package() -> Iterator[None]:
    """Within it, ``my_pkg`` can be imported; behind it nothing is registered that was not before."""
    before = list(registered._pairs)
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        registered._pairs[:] = before


@contextmanager
def own_pairs() -> Iterator[list[Any]]:
    """Within it, the README's pairs are registered."""
    with own_package():
        names: dict[str, Any] = {}
        exec(readme_pairs(), names)
        for pair in names["PAIRS"]:
            register(pair)
        yield names["PAIRS"]
