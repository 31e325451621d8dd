"""What a script makes in its loop of a batch, taken over in its own lines: what has a part in it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.writing.loop_lines import LoopLines, inputs_function, loop_lines

SCRIPT = """\
import torch
scale, loader, device = 2.0, [], "cpu"
for epoch in range(3):
    for i, data in enumerate(loader, 0):
        real = data[0].to(device)
        size = real.size(0)
        print(size)
        noise = torch.randn(size, 3) * scale
        fake = G(noise)
        late = torch.rand(i)
        mixed = torch.rand(fake.size(0), 1)
        if i > 3:
            other = torch.rand(2)
"""


def lines_of(folder: Path, line: int, text: str) -> LoopLines:
    (folder / "gan.py").write_text(SCRIPT)
    where = {"file": str(folder / "gan.py"), "function": "<module>"}
    batch = {"event": "batch", "where": {**where, "line": 4, "text": "for i, data in enumerate(loader, 0)"}}
    made = {"noise": {"where": {**where, "line": line, "text": text}}}
    return loop_lines(Observation({}, steps=[[batch]]), {"real": "0"}, made, ["G"])


def test_the_lines_that_draw_noise_are_taken(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, 8, "torch.randn(size, 3) * scale")
    assert lines.body == (
        "data = batch",
        "real = data[0].to(device)",
        "size = real.size(0)",
        "noise = torch.randn(size, 3) * scale",
    )
    assert lines.results == ("batch[0]", "noise") and lines.needs == {"torch", "scale", "device"}
    import torch

    space: dict[str, Any] = {"torch": torch, "scale": 2.0, "device": "cpu", "Any": Any}
    exec("\n".join(inputs_function(lines)), space)
    real, noise = space["inputs"]([torch.ones(5, 2)])
    assert real.shape == (5, 2) and noise.shape == (5, 3)


@pytest.mark.parametrize(
    ("line", "text", "why"),
    [
        (10, "torch.rand(i)", r"made in the loop with i \(gan.py:10"),
        (11, "torch.rand(fake.size(0), 1)", r"made in the loop with G \(gan.py:11"),
        (13, "torch.rand(2)", "gan.py:13.*no plain statement"),
    ],
)
def test_what_needs_more_than_a_batch_is_refused(line: int, text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        lines_of(tmp_path, line, text)
