"""A package's files, written and read back without the test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import port
from port.errors import BrokenWeights
from port.translation.artifact.package_files import name_in, read_package, write_package
from port.translation.codegen.packages import WrittenPackage

TEXTS = {"__init__.py": "from .layers.norms import Norm\n", "layers/__init__.py": "", "layers/norms.py": "Norm = 3\n"}


def test_read_back(tmp_path: Path) -> None:
    write_package(WrittenPackage(TEXTS), tmp_path)
    more = ("test_net.py", "__pycache__/a.py.b", ".hidden/a.py", "no-name.py", "net.mapping.toml")
    for file in more:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise AssertionError")
    assert name_in(tmp_path) == "net"
    assert read_package(tmp_path, "net") == WrittenPackage(TEXTS)
    assert "test_net.py" in read_package(tmp_path, "other").files


def test_no_written_package(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.mapping.toml").write_text("")
    with pytest.raises(BrokenWeights, match="holds 2 mappings"):
        name_in(tmp_path)
    (tmp_path / "__init__.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BrokenWeights, match="cannot be read"):
        read_package(tmp_path, "a")


def test_written_classes_are_those_of_its_files() -> None:
    made = port.translate(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), torch.randn(4, 3), check=False)
    package = WrittenPackage({"__init__.py": "class Own:\n    pass\n", "from_port.py": "class Copied:\n    pass\n"})
    assert replace(made, package=package).written_classes == {"Own"}
