"""An observation in the script's own lines."""

from __future__ import annotations

from port.scripts.account import ExecutedLine, folded


def rows(lines: str) -> list[ExecutedLine]:
    return [ExecutedLine("a.py", ord(line), "main", line) for line in lines]


def test_a_block_that_is_repeated_stands_once() -> None:
    def said(lines: str) -> str:
        return " ".join(f"{row.text}{row.times if row.times > 1 else ''}" for row in folded(rows(lines)))

    assert said("abcabcabcd") == "a3 b3 c3 d"
    assert said("xabab") == "x a2 b2"
    assert said("abcd") == "a b c d"
    assert said("aab") == "a2 b"
    assert said("") == ""
