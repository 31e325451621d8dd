"""Renamings: what they are, and which of them had nothing to do."""

from __future__ import annotations

from typing import Any

import pytest

from port.errors import UsageError
from port.mapping import Renaming

KEYS = ["features.0.weight", "features.1.weight", "head.bias"]


def test_patterns_apply_one_after_the_other() -> None:
    renaming = Renaming({"features": "body", r"body\.(\d)": r"layers.\1"})
    assert [renaming(key) for key in KEYS] == ["layers.0.weight", "layers.1.weight", "head.bias"]


def test_idle_patterns_are_told() -> None:
    assert Renaming({"features": "body", r"body\.(\d)": r"layers.\1", "bias": "bias"}).idle(KEYS) == []
    # The second would match, had the first not renamed it.
    told = Renaming({"features": "body", "^features": "x", "tail": "y"}).idle(KEYS)
    assert told == ["rename: '^features' matches none of torch's names", "rename: 'tail' matches none of torch's names"]
    assert Renaming().idle(KEYS) == []


@pytest.mark.parametrize("rules", [{1: "b"}, {"a": 1}, {"a": None}, {None: "a"}])
def test_what_is_no_text(rules: Any) -> None:
    with pytest.raises(UsageError, match="rename is pattern → replacement, both text"):
        Renaming(rules)


def test_what_is_no_regular_expression() -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        Renaming({"(": "a"})
    with pytest.raises(UsageError, match="cannot replace"):
        Renaming({"head": r"\3"})("head.bias")
