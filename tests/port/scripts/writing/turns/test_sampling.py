"""Calls of a model in training that lead to no loss: taken over with the condition under which they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from port.scripts.observation import Observation
from port.scripts.writing.turns.sampling import Sampling, samples_source, samplings

SCRIPT = """\
for epoch in range(3):
    for i, data in enumerate(loader, 0):
        loss.backward()
        if i % opt.every == 0 and epoch > 1:
            print(i)
            fake = G(fixed)
        if loss > 3:
            G(fixed)
        G(fixed)
"""
NORMED = {"G": nn.Sequential(nn.BatchNorm1d(2))}


def observed(folder: Path, line: int, *, training: bool = True) -> Observation:
    (folder / "gan.py").write_text(SCRIPT)
    where = {"file": str(folder / "gan.py"), "line": line, "text": "G(fixed)", "function": "<module>"}
    given = {"positional": [{"variable": "fixed", "tensor": "(4, 2) float32"}], "named": {}}
    call: dict[str, Any] = {"event": "call", "name": "G", "number": 7, "iteration": 0, "where": where}
    call |= {"has_parameters": True, "training": training, "arguments": given, "given": ["0.0"]}
    return Observation({}, steps=[[{"event": "backward", "path": [{"number": 3}]}, call]])


@pytest.mark.parametrize(("line", "when"), [(6, "batch_number % args.every == 0 and epoch > 1"), (9, None)])
def test_a_call_is_taken_over_with_its_condition(line: int, when: str | None, tmp_path: Path) -> None:
    (found,), remarks = samplings(observed(tmp_path, line), NORMED, epoch="epoch", options="opt")
    assert found == Sampling("G", "fixed", "0.7.G.0.0", when, f"gan.py:{line}, `G(fixed)`") and not remarks
    source = samples_source([found], "gan.py", "epoch", {"G": 1}, [["D"], ["G", "D"]])
    compile(source, "samples.py", "exec")
    assert "nnx.merge(graphdefs[1], params, rest, copy=True)" in source
    assert (f"    if {when}:\n" in source) == (when is not None)


def test_another_condition_is_said(tmp_path: Path) -> None:
    found, remarks = samplings(observed(tmp_path, 8), NORMED, epoch="epoch", options="opt")
    assert not found and "gan.py:8" in remarks[0] and "running statistics" in remarks[0]


def test_what_moves_nothing_is_left_out(tmp_path: Path) -> None:
    plain = {"G": nn.Sequential(nn.Linear(2, 2))}
    assert samplings(observed(tmp_path, 8), plain, epoch="epoch", options=None) == ([], [])
    assert samplings(observed(tmp_path, 8, training=False), NORMED, epoch="epoch", options=None) == ([], [])
