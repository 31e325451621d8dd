"""Constructors that cannot be called again: their results are written, and the report says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation import Translation

from .constructed_anew import taken


class FromFile(nn.Module):
    """Reads a file, and deletes it if asked to."""

    def __init__(self, path: Path, once: bool = False, dim: int = 4) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.load(path))
        self.fc = nn.Linear(dim, 3)
        if once:
            path.unlink()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x + self.table)


class OfTensor(nn.Module):
    """Takes a tensor."""

    def __init__(self, weight: Tensor, dim: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.fc = nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x + self.weight)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.pt"
    torch.save(torch.arange(4.0), path)
    return path


def translated(module: nn.Module, construct: Any = None) -> Translation:
    translation = port.translate(module, torch.randn(2, 4), construct=construct)
    assert translation.proof is not None and translation.proof.agrees
    return translation


def test_one_that_reads_a_file_which_is_gone(table: Path) -> None:
    made = translated(FromFile(table, once=True), lambda: FromFile(table, once=True))
    assert taken(made) == {} and "nnx.Linear(4, 3," in made.source
    (line,) = made.settings.lines
    assert line.startswith("constructors keep no arguments: construct fails: FileNotFoundError: ")
    assert str(table) in line
    assert all("construct fails: FileNotFoundError" in why for why in made.without_start.values())


@pytest.mark.sweep
def test_one_that_reads_a_file(table: Path) -> None:
    made = translated(FromFile(table), lambda: FromFile(table))
    assert "nnx.Linear(4, 3," in made.source
    assert made.without_start == {"table": "it is read from a file (table.pt)"}
    assert "size of tensor a (5) must match the size of tensor b (4)" in made.settings.fixed["dim"]


@pytest.mark.sweep
def test_one_that_takes_a_tensor() -> None:
    made = translated(OfTensor(torch.ones(4)), lambda: OfTensor(torch.ones(4)))
    assert "nnx.Linear(4, 3," in made.source
    assert "size of tensor a (5) must match the size of tensor b (4)" in made.settings.fixed["dim"]
