"""Written trainers, run as a user runs them: their losses are the original's, and a fault planted in them is seen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from port.scripts import Script
from port.scripts.writing_process import write_script

TRAINERS = Path(__file__).parents[1] / "trainers"
TIGHT = 1e-11
"""The original prints twelve digits."""
FAULTS = {
    "none": ("train.py", "", ""),
    "an evaluation in training mode": ("evaluation.py", "model.eval()", "model.train()"),
    "an example too few": ("original.py", "Images(44, 1)", "Images(43, 1)"),
    "an epoch too few": ("original.py", "range(1, args.epochs + 1)", "range(1, args.epochs)"),
    "rows and columns exchanged": ("train.py", ".transpose(0, 2, 3, 1)", ".transpose(0, 3, 2, 1)"),
    "a schedule that is off by one": ("train_step.py", "gamma=0.5), 6)", "gamma=0.5), 5)"),
}


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, script, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def numbers(text: str, label: str) -> list[float]:
    return [float(one) for one in re.findall(rf"{label} ([\d.]+)", text)]


def losses(record: Path) -> list[float]:
    lines = map(json.loads, record.read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "step"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with images.py and what was written of it; and what the original prints in float64."""
    folder = tmp_path_factory.mktemp("images")
    shutil.copy(TRAINERS / "images.py", folder)
    written = write_script(Script(str(folder / "images.py")), folder / "train_jax")
    assert not written.no_trainer, written.no_trainer
    return folder, run(folder, "images.py", "--double", "--epochs", "3").stdout


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS)
def test_a_trainer_has_the_originals_losses(fault: str, images: tuple[Path, str], tmp_path: Path) -> None:
    folder, printed = images
    shutil.copytree(folder / "train_jax", tmp_path / "train_jax")
    file, before, after = FAULTS[fault]
    text = (tmp_path / "train_jax" / file).read_text()
    assert before in text
    (tmp_path / "train_jax" / file).write_text(text.replace(before, after, 1) if before else text)
    done = run(tmp_path, "train_jax/train.py", "--epochs", "3", "--float64", "--record", "record.jsonl")
    if not done.returncode:
        theirs, ours = numbers(printed, ": loss"), losses(tmp_path / "record.jsonl")
        evaluated = numbers(printed, "test loss"), numbers(done.stdout, "test loss")
        same = ours == pytest.approx(theirs, rel=TIGHT) and evaluated[1] == pytest.approx(evaluated[0], rel=TIGHT)
        assert len(theirs) == 18 and len(evaluated[0]) == 3
    assert (not done.returncode and same) == (fault == "none"), done.stdout + done.stderr


@pytest.mark.sweep
def test_one_goes_on_from_its_checkpoint(images: tuple[Path, str], tmp_path: Path) -> None:
    """In float64 the record of a resumed run is that of one that was never stopped, bit for bit."""
    shutil.copytree(images[0] / "train_jax", tmp_path / "train_jax")
    given = ("train_jax/train.py", "--float64")
    assert not run(tmp_path, *given, "--epochs", "3", "--record", "a", "--checkpoints", "whole").returncode
    assert not run(tmp_path, *given, "--epochs", "1", "--record", "b").returncode
    refused = run(tmp_path, *given, "--epochs", "3")
    assert refused.returncode == 1 and "resume with --resume" in refused.stderr and "Traceback" not in refused.stderr
    assert not run(tmp_path, *given, "--epochs", "3", "--record", "b", "--resume").returncode
    assert losses(tmp_path / "a") == losses(tmp_path / "b") and len(losses(tmp_path / "b")) == 18


@pytest.mark.sweep
def test_another_rate_is_the_originals_at_it(images: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(images[0] / "train_jax", tmp_path / "train_jax")
    theirs = numbers(run(images[0], "images.py", "--double", "--lr", "0.03").stdout, ": loss")
    done = run(tmp_path, "train_jax/train.py", "--lr", "0.03", "--float64", "--record", "record.jsonl")
    assert not done.returncode, done.stderr
    assert losses(tmp_path / "record.jsonl") == pytest.approx(theirs, rel=TIGHT)
    assert theirs[1:] != pytest.approx(numbers(images[1], ": loss")[1:12], rel=1e-3)


@pytest.mark.sweep
def test_options_are_the_originals(images: tuple[Path, str]) -> None:
    folder, _ = images
    told = run(folder, "train_jax/train.py", "--help").stdout
    assert "--batch-size N" in told and "times through the data (100% of it)" in told and "--double" in told
    refused = run(folder, "train_jax/train.py", "--double")
    assert refused.returncode == 2 and "train_step.py was written for False" in refused.stderr
    other = run(folder, "train_jax/train.py", "--batch-size", "4", "--checkpoints", "other")
    assert "the schedule of train_step.py assumes 6 updates per epoch, but there are 11" in other.stderr
    readme = (folder / "train_jax" / "README.md").read_text()
    assert "python train_jax/train.py" in readme and "images.py:" in readme
