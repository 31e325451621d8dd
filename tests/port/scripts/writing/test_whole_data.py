"""A script that trains on all of its data at once: its lines before the loop make it, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.writing.original_source import original_source
from port.scripts.writing.whole_data import are_whole, check_whole, whole_data_loop

SCRIPT = """\
import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(3)
    unused = nn.Linear(2, 2)
    length = 4
    x = torch.arange(length) * 2.0
    y = x + 1
    for i in range(6):
        def closure():
            return x
        optimizer.step(closure)
"""


def observed(folder: Path, source: str = SCRIPT) -> Observation:
    (folder / "train.py").write_text(source)
    line = source.splitlines().index("        optimizer.step(closure)") + 1
    where = {"file": str(folder / "train.py"), "line": line, "function": "<module>", "text": "optimizer.step(closure)"}
    update: dict[str, Any] = {"event": "update", "where": where, "name": "optimizer", "by_hand": False}
    return Observation({}, steps=[[update]])


def test_the_data_is_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = whole_data_loop(observed(tmp_path), ["x", "y"])
    file = tmp_path / "original.py"
    file.write_text(original_source(loop, "train.py", []))
    assert "unused" not in file.read_text() and loop.epoch == "i"
    monkeypatch.setattr("sys.argv", ["train.py"])
    check_whole(file, "data", [torch.tensor([0.0, 2, 4, 6]), torch.tensor([1.0, 3, 5, 7])], "train.py:9")
    with pytest.raises(UsageError, match="its lines alone make other data"):
        check_whole(file, "data", [torch.tensor([0.0, 2, 4, 6]), torch.tensor([1.0, 3, 5, 8])], "train.py:9")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("            return x", "            return x\n        x = x + 1", "sets x in the loop"),
        ("    y = x + 1\n", "", "no statement before the loop sets y, which is trained on at"),
        ("for i in range(6)", "while True", "in no loop over a range"),
    ],
)
def test_what_is_not_plain_is_refused(before: str, after: str, why: str, tmp_path: Path) -> None:
    assert before in SCRIPT
    with pytest.raises(UsageError, match=why):
        whole_data_loop(observed(tmp_path, SCRIPT.replace(before, after)), ["x", "y"])


def test_parts_of_a_batch_are_not_the_whole() -> None:
    assert are_whole([{"variable": "x"}, {"variable": "y"}], [])
    assert not are_whole([{"variable": "x"}, {"batch": "loader", "part": "0"}], [])
    assert not are_whole([{"variable": None}], []) and not are_whole([], [])


def test_what_changes_from_update_to_update_is_not_the_whole() -> None:
    """As batches that a script cuts itself, into variables of the same names."""
    told = [{"variable": "x"}]
    assert are_whole(told, [{"x": torch.ones(3)}, {"x": torch.ones(3)}])
    assert not are_whole(told, [{"x": torch.ones(3)}, {"x": torch.zeros(3)}])
    assert not are_whole(told, [{"x": torch.ones(3)}, {"x": torch.ones(2)}])
