"""Liveness: names that statements read before they bind them, and names that they always bind."""

from __future__ import annotations

import pytest

from port.translation.structure.live_names import always_assigned, assigned, live_in

from ..statements_read import statements


@pytest.mark.parametrize(
    ("text", "read", "bound", "always"),
    [
        ("y = x\nx = y", {"x"}, ["y", "x"], {"y", "x"}),
        ("y = 1\nz = y", set(), ["y", "z"], {"y", "z"}),
        ("x, (y, *z) = f(a)", {"f", "a"}, ["x", "y", "z"], {"x", "y", "z"}),
        ("x.y = a\nx[i] = b", {"x", "a", "i", "b"}, [], set()),
        ("if a:\n    x = 1\n    y = 1\nelse:\n    x = 2", {"a"}, ["x", "y"], {"x"}),
        ("if a:\n    x = 1\ny = x", {"a", "x"}, ["x", "y"], {"y"}),
        ("for x in xs:\n    y = x + z\nu = y", {"xs", "z", "y"}, ["x", "y", "u"], {"u"}),
    ],
)
def test_names(text: str, read: set[str], bound: list[str], always: set[str]) -> None:
    given = statements(text)
    assert (live_in(given), assigned(given), always_assigned(given)) == (read, bound, always)
