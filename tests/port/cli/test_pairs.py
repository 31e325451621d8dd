"""`--pairs my_pairs.py`: the guide's file, of every kind of pair, with each command that reads pairs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from models.own import FOLDER, guide_pairs, own_package
from port.cli import main

MODEL = """
import torch
from my_pkg.layers import FocalLoss, Gate
from my_pkg.ops import swish


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate(5, 4)
        self.loss = FocalLoss()

    def forward(self, x, labels):
        return self.loss(self.gate(torch.ops.my_lib.rounded(4 * swish(x, 0.5))), labels)


def inputs():
    return torch.randn(3, 5), torch.tensor([0, 3, 1])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a person stands who has ``my_pkg``, a model of it, and the guide's pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{FOLDER}:{Path(__file__).parents[3]}")
    monkeypatch.delitem(sys.modules, "own_model", raising=False)
    monkeypatch.delitem(sys.modules, "my_pairs", raising=False)
    (tmp_path / "own_model.py").write_text(MODEL)
    (tmp_path / "my_pairs.py").write_text(guide_pairs())
    with own_package():
        yield tmp_path
    sys.modules.pop("my_pairs", None)


def run(*arguments: str) -> int:
    return main(arguments)


@pytest.mark.sweep
def test_translate_writes_and_proves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("translate", "own_model:Net", "--inputs", "own_model:inputs")
    assert run(*asked, "--dry-run") != 0
    told = capsys.readouterr().out
    assert "my_lib.swish" in told
    assert run(*asked, "--dry-run", "--pairs", "my_pairs.py") == 0
    told = capsys.readouterr().out
    assert "have pairs" in told
    assert run(*asked, "--pairs", "my_pairs.py", "-o", "ported/") == 0
    source = (folder / "ported" / "net.py").read_text()
    assert "import my_pkg.in_jax\n" in source
    assert "kernels.rounded(" in source
    again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "ported"]
    done = subprocess.run(again, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_convert_moves_optimizer_and_scheduler(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import own_model
    from my_pkg.optim import InverseSquareRoot, Lion

    torch.manual_seed(4)
    net = own_model.Net()
    optimizer = Lion(net.parameters(), 0.02, weight_decay=0.1)
    scheduler = InverseSquareRoot(optimizer, warm_up=2)
    for _ in range(5):
        optimizer.zero_grad()
        net(*own_model.inputs()).backward()
        optimizer.step()
        scheduler.step()
    kept = {"model": net, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({name: one.state_dict() for name, one in kept.items()}, "run.pt")
    asked = ["convert", "run.pt", "--torch", "own_model:Net", "--optimizer", "my_pkg.optim:Lion"]
    asked += ["--scheduler", "my_pkg.optim:InverseSquareRoot", "-o", "moved.safetensors"]
    assert run(*asked) == 2
    assert "port.register" in capsys.readouterr().err
    assert run(*asked, "--pairs", "my_pairs.py") == 0
    told = capsys.readouterr().out
    assert "my_pkg.in_jax.inverse_square_root(0.02, warm_up=2), 0.9, 0.99, weight_decay=0.1" in " ".join(told.split())
    moved = load_file("moved.safetensors")
    (moment,) = [value for name, value in moved.items() if name.endswith("mu.gate.kernel")]
    np.testing.assert_array_equal(moment, optimizer.state[net.gate.weight]["exp_avg"].numpy().T)


@pytest.mark.sweep
def test_the_sites_cheat_sheet_has_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text("import torch\n")
    (folder / "b.py").write_text("import jax\n")
    assert run("diff", "a.py", "b.py", "--html", "site", "--pairs", "my_pairs.py") == 0
    page = (folder / "site" / "cheat_sheet.html").read_text()
    own = ("my_pkg.layers.Gate", "torch.ops.my_lib.swish(x, beta)", "my_pkg.optim.Lion", "optax.lion(", "your own")
    assert [said for said in own if said not in page] == []
    assert run("diff", "--table", "--pairs", "my_pairs.py") == 2
    assert "--html SITE" in capsys.readouterr().err


def test_a_pair_that_cannot_be_right_is_told_with_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = 'PAIRS = [OperatorPair.of("torch.ops.my_lib.swish(x, beta)", "x * b")]\n'
    (folder / "wrong.py").write_text(f"from port.pairs import OperatorPair\n{wrong}")
    asked = ("translate", "own_model:Net", "--inputs", "own_model:inputs", "--dry-run")
    assert run(*asked, "--pairs", "wrong.py") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--pairs: wrong.py: torch.ops.my_lib.swish(x, beta): its jax reads b" in told
