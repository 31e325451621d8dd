"""Trainers of scripts without a DataLoader: they go on from a checkpoint as if they had never stopped; refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from port.scripts import Script
from port.scripts.writing_process import WrittenUpdate, write_script

TRAINERS = Path(__file__).parents[1] / "trainers"


def run(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "train_jax/train.py", "--float64", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr


def losses(record: Path) -> list[float]:
    lines = map(json.loads, record.read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] in ("step", "evaluation")]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "count"), [("carried", 24 + 4), ("seldom", 16 + 2)])
def test_one_goes_on_from_its_checkpoint(name: str, count: int, tmp_path: Path) -> None:
    """With the rate that its evaluations have led to, and the order that its generators have come to."""
    shutil.copy(TRAINERS / f"{name}.py", tmp_path)
    written = write_script(Script(str(tmp_path / f"{name}.py")), tmp_path / "train_jax")
    assert not written.no_trainer, written.no_trainer
    run(tmp_path, "--epochs", "4", "--record", "whole", "--checkpoints", "a")
    run(tmp_path, "--epochs", "3", "--record", "part", "--checkpoints", "b")
    run(tmp_path, "--epochs", "4", "--record", "part", "--checkpoints", "b", "--resume")
    assert losses(tmp_path / "part") == losses(tmp_path / "whole") and len(losses(tmp_path / "whole")) == count


def written(text: str, folder: Path) -> WrittenUpdate:
    (folder / "train.py").write_text(text)
    return write_script(Script(str(folder / "train.py")), folder / "train_jax")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("torch.randperm(len(train_x), generator=generator)", "torch.randperm(len(train_x))", ""),
        ("F.mse_loss(model(x), y)", "F.mse_loss(model(x * 1), y)", ""),
        ("range(0, len(order), opt.batch_size)", "range(epoch * 0, len(order), opt.batch_size)", "depend on epoch"),
    ],
)
def test_loops_that_are_not_plain(before: str, after: str, reason: str, tmp_path: Path) -> None:
    text = (TRAINERS / "seldom.py").read_text()
    assert before in text
    done = written(text.replace(before, after), tmp_path)
    assert done.status is not None and (reason in done.no_trainer) == bool(reason or not done.no_trainer), done
    assert (tmp_path / "train_jax" / "train.py").exists() == (not done.no_trainer)
