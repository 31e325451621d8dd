"""TorchScript programs are read without being run: their state dict, bit for bit, and nothing beside it."""

from __future__ import annotations

import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import open_checkpoint


class Mixed(nn.Module):
    """Parameters, buffers of both kinds, a plain tensor, lists, a parameter that is None, another dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, (3, 2)), nn.BatchNorm2d(4)
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 5, bias=False))
        self.register_buffer("mask", torch.rand(5), persistent=False)
        self.register_parameter("nothing", None)
        self.small = nn.Parameter(torch.rand(3).bfloat16())
        self.plain, self.sizes = torch.rand(2), [1, 2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).mean((2, 3))
        return self.layers(x) + self.mask + self.plain.sum() + self.small.sum()


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(x))


class Recurrent(nn.Module):
    """Layers in a list, and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.heads = nn.GRU(3, 4, 2), nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 3)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, _ = self.gru(x)
        return self.heads[0](y), self.heads[1](y)


CASES: list[tuple[type[nn.Module], Any]] = [
    (Mixed, torch.rand(2, 3, 6, 6)),
    (Tied, torch.randint(0, 7, (2, 3))),
    (Recurrent, torch.rand(5, 2, 3)),
]


def saved(path: Path, module: nn.Module, x: Any, *, traced: bool) -> dict[str, torch.Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would have programs exported otherwise now
        program = torch.jit.trace(module.eval(), x) if traced else torch.jit.script(module.eval())
        torch.jit.save(program, path)
    return program.state_dict()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(("module", "x"), CASES)
def test_the_state_dict_of_a_program(tmp_path: Path, module: type[nn.Module], x: Any, traced: bool) -> None:
    state = saved(tmp_path / "w.pt", module(), x, traced=traced)
    with open_checkpoint(tmp_path / "w.pt") as checkpoint:
        assert set(checkpoint.tensors) == set(state)
        for name, tensor in state.items():
            read = checkpoint.read(name)
            assert (read.dtype.name, read.shape) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            bits = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            assert read.tobytes() == bits.numpy().tobytes()
        assert checkpoint.aliases == ({"out.weight": "embedding.weight"} if module is Tied else {})
        assert set(checkpoint.left_out) <= {"plain"}


def test_a_key_and_a_broken_program_are_told(tmp_path: Path) -> None:
    saved(tmp_path / "w.pt", Mixed(), CASES[0][1], traced=False)
    with pytest.raises(UsageError, match="is a TorchScript program, with one state dict and none at 'state_dict'"):
        open_checkpoint(tmp_path / "w.pt", key="state_dict")
    with zipfile.ZipFile(tmp_path / "w.pt") as archive, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for entry in archive.infolist():
            if "/code/" not in entry.filename:
                bad.writestr(entry, archive.read(entry))
    with pytest.raises(BrokenWeights, match="TorchScript program that cannot be read: the source of its class"):
        open_checkpoint(tmp_path / "bad.pt")


def test_the_source_in_it_is_never_run(tmp_path: Path) -> None:
    saved(tmp_path / "w.pt", Tied(), CASES[1][1], traced=False)
    with zipfile.ZipFile(tmp_path / "w.pt") as archive, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.endswith(".py"):
                content = b"import sys\nsys.port_was_here = 1\n" + content
                content = content.replace(b"__buffers__ = []", b"__buffers__ = [setattr(sys, 'port_was_here', 1)]")
            bad.writestr(entry, content)
    with pytest.raises(BrokenWeights, match="a list of names in its source is invalid"):
        open_checkpoint(tmp_path / "bad.pt")
    assert not hasattr(sys, "port_was_here")
    assert np.isfinite(open_checkpoint(tmp_path / "w.pt").read("embedding.weight")).all()


def test_a_source_that_swells_is_refused(tmp_path: Path) -> None:
    """It is compressed, alone of all that is in such a file."""
    saved(tmp_path / "w.pt", Tied(), CASES[1][1], traced=False)
    with zipfile.ZipFile(tmp_path / "w.pt", "a", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(f"w/code/{name}.py", b" " * 2**25)
    with pytest.raises(BrokenWeights, match="the source in it has more than"):
        open_checkpoint(tmp_path / "w.pt")
