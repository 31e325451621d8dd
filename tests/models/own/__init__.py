"""A person's own package, ``my_pkg``, which `port` does not know, in PyTorch and in JAX. The guide's pairs join it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import port
from guide_blocks import blocks
from port.pairs import register, registered

FOLDER = Path(__file__).parent
_GUIDE = Path(port.__file__).parent / "guides" / "write_a_pair.md"


def guide_pairs() -> str:
    """The file of pairs that the guide writes, part by part."""
    return "".join(block.content for block in blocks(_GUIDE.read_text("utf-8")) if block.file == "my_pairs.py")


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
    """Within it, the guide's pairs are registered."""
    with own_package():
        names: dict[str, Any] = {}
        exec(guide_pairs(), names)
        for pair in names["PAIRS"]:
            register(pair)
        yield names["PAIRS"]
