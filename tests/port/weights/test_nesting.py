"""Dotted names into nested dicts, and back."""

from __future__ import annotations

import pytest

from port.errors import UsageError
from port.weights.nesting import dotted, flat, nested


def test_there_and_back() -> None:
    leaves = {"a.b.0": 1, "a.b.10": 2, "a.c": 3, "d": 4}
    tree = nested(leaves)
    assert tree == {"a": {"b": {"0": 1, "10": 2}, "c": 3}, "d": 4}
    assert {dotted(parts): leaf for parts, leaf in flat(tree)} == leaves


def test_lists_are_numbered() -> None:
    assert list(flat({"a": [1, {"b": (2, 3)}], "e": {}})) == [
        (("a", 0), 1),
        (("a", 1, "b", 0), 2),
        (("a", 1, "b", 1), 3),
    ]


@pytest.mark.parametrize("names", [("a", "a.b"), ("a.b", "a"), ("a.b.c", "x", "a.b"), ("a", "a.b.c")])
def test_a_name_inside_another_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="cannot both be nested"):
        nested(dict.fromkeys(names, 0))


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b"])
def test_an_empty_part_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a part of it is empty"):
        nested({name: 0})
