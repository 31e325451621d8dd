"""A sampler is told the epoch where the script's line has done so, with the loop's own variable."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing.telling_epoch import tells_epoch

LOOP = """\
def one(number, loader):
    loader.sampler.set_epoch(number)

for epoch in range(3):
    sampler.set_epoch(epoch)
"""
CASES = {
    "in the loop": ("", "", True),
    "by name": ("set_epoch(epoch)", "set_epoch(epoch=epoch)", True),
    "in a function": ("    sampler.set_epoch(epoch)", "    one(epoch, loader)", True),
    "in a function, another": ("    sampler.set_epoch(epoch)", "    one(epoch + 1, loader)", None),
    "another number": ("sampler.set_epoch(epoch)", "sampler.set_epoch(epoch + 1)", None),
    "always the same": ("sampler.set_epoch(epoch)", "sampler.set_epoch(0)", None),
}


def told(source: str, line: int, of: str = "sampler") -> bool:
    tree = ast.parse(source)
    loop = tree.body[-1]
    assert isinstance(loop, ast.For)
    where: dict[str, Any] = {"file": "train.py", "line": line, "function": "", "text": ""}
    return tells_epoch(tree, loop, {"name": "loader", "epoch_told": {"where": where, "of": of}}, Path("train.py"))


@pytest.mark.parametrize("case", CASES)
def test_what_it_is_told(case: str) -> None:
    before, after, expected = CASES[case]
    assert before in LOOP
    source = LOOP.replace(before, after)
    line = 2 if "function" in case else 5
    if expected is None:
        with pytest.raises(UsageError, match=f"train.py:{line} does not call loader.sampler.set_epoch"):
            told(source, line)
    else:
        assert told(source, line) == expected


def test_another_sampler_is_refused() -> None:
    with pytest.raises(UsageError, match=r"does not call loader.batch_sampler.set_epoch .*, or calls another object's"):
        told(LOOP, 5, "batch_sampler")


def test_a_line_that_was_not_run_tells_nothing() -> None:
    """``if distributed: sampler.set_epoch(epoch)`` in one process; and the account of an older version."""
    tree = ast.parse(LOOP)
    loop = tree.body[-1]
    assert isinstance(loop, ast.For)
    assert not tells_epoch(tree, loop, {"name": "loader", "epoch_told": None}, Path("train.py"))
    assert not tells_epoch(tree, loop, {"name": "loader"}, Path("train.py"))
