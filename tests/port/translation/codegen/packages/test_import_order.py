"""Files that import each other are joined; files that Python can import stay unchanged."""

from __future__ import annotations

import pytest

from port.translation.codegen.packages.import_order import half_imported, joined_places
from port.translation.codegen.packages.places import FilePlace

A, B, C = ("a",), ("b",), ("c",)
TOP, IN_X, X = ("__init__",), ("x", "part"), ("x", "__init__")

JOINED = {
    "one way": ([A, B, C], [[], [0], [0, 1]], [A, B, C]),
    "both ways": ([A, B, A], [[], [0], [1]], [A, A, A]),
    "around three": ([A, B, C, A], [[], [0], [1], [2]], [A, A, A, A]),
    "two pairs": ([A, B, A, IN_X, X, IN_X], [[], [0], [1], [2], [3], [4]], [A, A, A, IN_X, IN_X, IN_X]),
    "a package needs its own file": ([IN_X, X], [[], [0]], [IN_X, X]),
    "a file needs its package": ([X, IN_X], [[], [0]], [X, IN_X]),
    "the package needs all": ([A, B, TOP], [[], [0], [0, 1]], [A, B, TOP]),
    # Importing b brings x.part, and before that x itself, which needs b.
    "a package that needs what needs its file": ([IN_X, B, X], [[], [0], [1]], [IN_X, B, X]),
}


@pytest.mark.parametrize("case", JOINED)
def test_joined(case: str) -> None:
    homes, uses, expected = JOINED[case]
    assert joined_places(homes, uses, homes[-1]) == expected


def test_what_python_brings_first_may_be_half_imported() -> None:
    """Begun at b: x.part brings its package, which needs b."""
    needs: dict[FilePlace, list[FilePlace]] = {IN_X: [], B: [IN_X], X: [B]}
    assert half_imported(needs, X) is None
    assert half_imported(needs, B) == (X, B)
    assert joined_places([IN_X, B, X, A], [[], [0], [1], [1, 2]], A) == [IN_X, B, B, A]
