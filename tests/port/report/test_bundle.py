"""`port translate --report-bundle`: sources, versions and what came of it, and no weights."""

from __future__ import annotations

import json
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from port.cli import main

LAYERS = """
import torch


class Scaled(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)
"""
MODEL = """
import torch

from layers.scaled import Scaled


class Net(torch.nn.Module):
    def __init__(self, breaks: bool = False):
        super().__init__()
        self.scaled = Scaled(3, 2)
        self.breaks = breaks

    def forward(self, x):
        if self.breaks and x.sum() > 0:
            return self.scaled(x)
        return self.scaled(x).tanh()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "scaled.py").write_text(LAYERS)
    (tmp_path / "bundled.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def contents(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.sweep
def test_a_translation_that_goes_well(project: Path) -> None:
    torch.manual_seed(0)
    torch.save({"scaled.weight": torch.randn(2, 3), "scaled.bias": torch.randn(2)}, "net.pth")
    line = ["translate", "bundled:Net", "--input", "4,3", "--weights", "net.pth", "-o", "out"]
    assert main([*line, "--report-bundle", "all.zip"]) == 0
    found = contents(project / "all.zip")
    assert found["sources/bundled.py"] == MODEL and found["sources/layers/scaled.py"] == LAYERS
    assert found["written.py"] == (project / "out" / "net.py").read_text()
    assert "port translate bundled:Net --input 4,3" in found["command.txt"]
    told = json.loads(found["environment.json"])
    assert told["libraries"]["torch"] == version("torch")
    assert "error.txt" not in found and "It holds no weights" in found["README.txt"]
    assert str(project) not in "".join(text for name, text in found.items() if name.startswith(("sources/", "README")))
    weight = torch.load("net.pth")["scaled.weight"].numpy().astype(np.float32)
    raw = (project / "all.zip").read_bytes()
    assert weight.tobytes() not in raw and not [name for name in found if name.endswith((".safetensors", ".pth"))]


@pytest.mark.sweep
def test_one_that_fails_says_why(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["translate", "bundled:Net", "--kwargs", '{"breaks": true}', "--input", "4,3", "-o", "out"]
    assert main([*line, "--report-bundle", "broken.zip"]) == 2
    found = contents(project / "broken.zip")
    said = capsys.readouterr().err.removeprefix("port: ").strip()
    assert said.splitlines()[0] in found["error.txt"] and found["error.txt"].startswith("Traceback")
    assert found["sources/bundled.py"] == MODEL and "written.py" not in found
    assert not (project / "out").exists()


def test_a_model_that_is_not_there(project: Path) -> None:
    assert main(["translate", "bundled:Gone", "--input", "4,3", "--report-bundle", "gone.zip"]) == 2
    found = contents(project / "gone.zip")
    assert "Gone" in found["error.txt"] and not [name for name in found if name.startswith("sources/")]


@pytest.mark.parametrize(("file", "said"), [("there.zip", "is there already"), ("bundle.txt", "bundle.zip")])
def test_a_file_that_cannot_be_it(file: str, said: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "there.zip").write_bytes(b"mine")
    assert main(["translate", "bundled:Net", "--input", "4,3", "--report-bundle", file]) == 2
    assert said in capsys.readouterr().err
    assert (project / "there.zip").read_bytes() == b"mine"
