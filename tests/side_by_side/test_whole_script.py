"""The whole script: `port script` writes what stands in the lesson, and both sides train the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import side_by_side
from port.lessons import find_lesson
from port.lessons.written_folder import FILES
from tests.port.scripts.undefined_names import undefined_names

ROOT = Path(side_by_side.__file__).parent
SCRIPT, WRITTEN = ROOT / "pytorch" / "whole_script.py", ROOT / "jax" / "whole_script"
OBSERVATION, ACCOUNT = "observed/observation.json", "observed/account.txt"
KEPT = ("observed/original.json", ACCOUNT, "model.mapping.toml", "torch_loss.py", "torch_evaluation.py")
DECIMAL = re.compile(r"\d+\.\d+")
FAULTS = {
    "the rate is one step ahead": ("train_step.py", "T_max=T_max, eta_min", "T_max=T_max - 1, eta_min"),
    "biases are decayed": ("train_step.py", "weight_decay=0.0", "weight_decay=weight_decay"),
    "labels are not smoothed": ("model.py", ", label_smoothing=0.1", ""),
    "it is evaluated in training mode": ("evaluation.py", "model.eval()", "model.train()"),
    "the mean for the sum": ("evaluation.py", 'reduction="sum"', 'reduction="mean"'),
}


def judged(trainer: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "port", "train", "--torch-script", str(SCRIPT), "--jax-script", str(trainer)]
    command += ["--out", "run", "--precision", "float64", "--", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)


def test_the_lesson_has_the_script_its_account_and_the_written_files() -> None:
    lesson = find_lesson("whole_script")
    torch, jax = lesson.sources()
    assert not any("import port" in line for line in torch.lines)
    assert [line for line in jax.lines if line.startswith("# %% ")] == [
        f"# %% {name}" for name in FILES if (WRITTEN / name).is_file()
    ]
    account = lesson.account()
    assert account is not None and "a step, line by line" in account
    assert undefined_names(WRITTEN) == ""


@pytest.mark.sweep
def test_port_script_writes_what_stands_there(tmp_path: Path) -> None:
    shutil.copy(SCRIPT, tmp_path)
    command = [sys.executable, "-m", "port", "script", SCRIPT.name, "-o", "train_jax", "--", "--epochs", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [*(name for name in FILES if (WRITTEN / name).is_file()), *KEPT]
    if os.environ.get("PORT_UPDATE_GOLDEN"):
        for name in [*names, "model.safetensors"]:
            shutil.copy(tmp_path / "train_jax" / name, WRITTEN / name)
        seen = (tmp_path / "train_jax" / OBSERVATION).read_text("utf-8")
        seen = seen.replace(str(tmp_path), "side_by_side/pytorch").replace(sys.executable, "python")
        (WRITTEN / OBSERVATION).write_text(seen, "utf-8")
    for name in names:
        made, kept = ((folder / name).read_text("utf-8") for folder in (tmp_path / "train_jax", WRITTEN))
        if name == ACCOUNT:  # what the script computes in float32 differs from processor to processor
            assert numbers(made) == pytest.approx(numbers(kept), rel=0.01)
            made, kept = without_numbers(made), without_numbers(kept)
        assert made == kept, name


def numbers(account: str) -> list[float]:
    return [float(number) for number in DECIMAL.findall(account)]


def without_numbers(account: str) -> str:
    return re.sub(" +", " ", DECIMAL.sub("…", account))


@pytest.mark.sweep
def test_both_sides_train_the_same_with_other_options(tmp_path: Path) -> None:
    done = judged(WRITTEN / "train.py", tmp_path, "--epochs", "9", "--lr", "0.002", "--weight-decay", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch and jax are the same over 200 steps in float64" in done.stdout.replace("\n", " ")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path) -> None:
    shutil.copytree(WRITTEN, tmp_path / "written")
    name, right, wrong = FAULTS[fault]
    text = (WRITTEN / name).read_text("utf-8")
    assert right in text
    (tmp_path / "written" / name).write_text(text.replace(right, wrong), "utf-8")
    done = judged(tmp_path / "written" / "train.py", tmp_path, "--epochs", "2")
    assert done.returncode == 1, done.stdout + done.stderr
