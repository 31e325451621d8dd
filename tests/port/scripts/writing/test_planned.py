"""How many losses are to come: the lengths of the loops around, where they are known without doing anything."""

from __future__ import annotations

import linecache
import sys
from typing import Any

import pytest

from port.scripts.writing.planned import planned


class Loader:
    def __len__(self) -> int:
        return 7

    passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return iter([0])


def planned_in(source: str, **given: Any) -> int | None:
    """What a script finds where it first calls ``here()``."""
    found: list[int | None] = []
    name = f"<planned {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = {"here": lambda: found.append(planned([sys._getframe(1)])), **given}
    exec(compile(source, name, "exec"), names)
    return found[0]


LOOPS = {
    "for epoch in range(3):\n    for n, b in enumerate(batches):\n        here()\n": 12,
    "for step in range(1, steps + 1):\n    here()\n": 20,
    "for epoch in range(3):\n    x = epoch\nfor b in batches:\n    here()\n": 4,
    "for n in range(3):\n    x = n\nelse:\n    for b in batches:\n        here()\n": 4,
    "while steps:\n    for b in batches:\n        here()\n    steps = 0\n": None,
    "for epoch in range(3):\n    while steps:\n        here()\n        steps = 0\n": None,
    "while steps > 20:\n    pass\nfor b in batches:\n    here()\n": 4,
    "here()\n": None,
    "for b in made():\n    here()\n": None,
    "for a, b in zip(batches, batches):\n    here()\n": None,
}


@pytest.mark.parametrize("source", LOOPS)
def test_the_product_of_the_loops(source: str) -> None:
    assert planned_in(source, batches=[1, 2, 3, 4], steps=20, made=lambda: [1, 2]) == LOOPS[source]


def test_a_loader_is_asked_for_its_length_alone() -> None:
    loader = Loader()
    assert planned_in("for b in loader:\n    here()\n", loader=loader) == 7 and loader.passes == 1
