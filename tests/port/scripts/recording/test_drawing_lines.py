"""Each batch of a loop over steps has generators of its own, wherever its lines stand."""

from __future__ import annotations

import ast
import builtins
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import torch

from port.errors import UsageError
from port.scripts.own_draws import draws_of_batch
from port.scripts.recording.drawing_lines import EVALUATION, TRAINING, DrawingLines
from port.scripts.watched_original import LinesOfLoop

SCRIPT = """\
import torch
seen, found = [], []
x = torch.rand(1)
for step in range(3):
    if step == 1: found.append(float(torch.rand(1)))
    use(float(x))
    torch.rand(step)
    x = torch.rand(
        1
    )
"""


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LinesOfLoop:
    (tmp_path / "loop.py").write_text(SCRIPT)
    for name in ("source_to_code", "get_code"):
        monkeypatch.setattr(SourceFileLoader, name, getattr(SourceFileLoader, name))
    for name in (TRAINING, EVALUATION):
        monkeypatch.setattr(builtins, name, None, raising=False)
    return LinesOfLoop.of(tmp_path / "loop.py", [3, 8], [5])


def test_a_batch_is_drawn_alike_whatever_is_drawn_between(lines: LinesOfLoop, tmp_path: Path) -> None:
    refused: list[UsageError] = []
    drawing = DrawingLines(lines, lambda: None, lambda: 7, refused.append)
    drawing.watch()
    seen: list[float] = []
    loader = SourceFileLoader("__main__", str(tmp_path / "loop.py"))
    path = str(tmp_path / "loop.py")
    space = {"use": lambda one: (seen.append(one), drawing.used())}
    exec(loader.source_to_code(SCRIPT.encode(), path), space)
    expected = []
    for number in range(3):
        with draws_of_batch(number)():
            expected.append(float(torch.rand(1)))
    assert seen == expected and len(set(seen)) == 3 and not refused
    assert ast.dump(ast.parse(Path(path).read_text())) == ast.dump(ast.parse(SCRIPT))


def test_lines_are_found_in_a_script_that_grew() -> None:
    lines = LinesOfLoop("a.py", {3: "x = draw()"}, {4: "evaluate()"})
    assert LinesOfLoop.from_data(lines.as_data()) == lines
    assert lines.found_in(["", "", "# more", "x = draw()", "    evaluate()"]) == ({4}, {5})
    with pytest.raises(UsageError, match=r"no longer has the line `x = draw\(\)`"):
        lines.found_in(["x = draw()", "x = draw()", "", "evaluate()"])
