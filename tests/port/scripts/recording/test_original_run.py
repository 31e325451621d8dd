"""A script as it is beside the trainer that was written of it: the verdict says agree, and finds what is planted."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from port.judging import Status
from port.scripts import Script
from port.scripts.recording import original_run
from port.scripts.writing_process import write_script
from port.training import Outcome, judge

TRAINERS = Path(__file__).parents[1] / "trainers"
ENTRY = Path(original_run.__file__).with_name("__main__.py")
UPDATES = 12
"""Of 5 in an epoch: it ends within the third."""
FAULTS = {
    "none": ("train.py", "", ""),
    "a schedule that is off by one": ("train_step.py", "gamma=0.5), 5)", "gamma=0.5), 6)"),
    "weight decay on biases": ("train_step.py", "weight_decay=0.0", "weight_decay=0.1"),
    "a mean over the microbatches": (
        "train_step.py",
        "    loss = losses.sum()",
        "    gradients = jax.tree.map(lambda gradient: gradient / 2, gradients)\n    loss = losses.sum()",
    ),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
    "the last update dropped": (
        "train.py",
        "enumerate(together(batches, dtype))",
        "enumerate([*together(batches, dtype)][:-1])",
    ),
    "another length": ("original.py", "Points(40, 1, 0.1)", "Points(36, 1, 0.1)"),
    "another order": ("original.py", "shuffle=True", "shuffle=False"),
    "no dropout": ("train.py", "run.masks(step)", "run.masks(0)"),
}


def environment(folder: Path, side: str) -> dict[str, str]:
    """What the launcher tells a side."""
    return {
        "PORT_RECORD": str(folder / f"{side}.jsonl"),
        "PORT_SIDE": side,
        "PORT_INITIAL_WEIGHTS": str(folder / "initial.safetensors"),
        "PORT_FINAL_WEIGHTS": str(folder / f"{side}.safetensors"),
    }


def run_original(written: Path, script: Path, folder: Path, *arguments: str, precision: str = "float64") -> str:
    """Record the original's side; returns what it printed."""
    done = subprocess.run(
        [sys.executable, str(ENTRY), str(written), str(UPDATES), precision, script.name, *arguments],
        cwd=script.parent,
        env=os.environ | environment(folder, "torch"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


def run_written(written: Path, folder: Path, *arguments: str) -> None:
    """Record the written side, in this process: it begins with the original's weights."""
    import jax

    before = sys.argv, dict(sys.modules), jax.config.jax_enable_x64
    sys.argv = [str(written / "train.py"), *arguments, "--record", "x", "--updates", str(UPDATES)]
    sys.argv += ["--float64", "--checkpoints", str(folder / "checkpoints")]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment(folder, "jax").items():
            patched.setenv(name, value)
        patched.syspath_prepend(str(written))
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            sys.argv = before[0]
            jax.config.update("jax_enable_x64", before[2])
            for name in ("original", "train_step", "model"):
                sys.modules.pop(name, None)


def verdict(folder: Path) -> Outcome:
    """Over both records and the final weights."""
    weights = folder / "torch.safetensors", folder / "jax.safetensors"
    return judge("float64", folder / "torch.jsonl", folder / "jax.jsonl", (), weights)


def both_sides(folder: Path, name: str) -> tuple[Path, Path]:
    """The folder that was written of a trainer, and what recording it left."""
    shutil.copy(TRAINERS / name, folder)
    written = write_script(Script(str(folder / name)), folder / "train_jax")
    assert written.status is Status.AGREE and not written.no_trainer, written.no_trainer
    recorded = folder / "recorded"
    recorded.mkdir()
    printed = run_original(folder / "train_jax", folder / name, recorded)
    assert (recorded / "torch.safetensors").exists(), printed
    return folder / "train_jax", recorded


@pytest.fixture(scope="module")
def accumulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("accumulated"), "accumulated.py")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("averaged"), "averaged.py")


def judged(both: tuple[Path, Path], folder: Path, fault: tuple[str, str, str]) -> Outcome:
    """The verdict with a fault planted in the written side."""
    shutil.copytree(both[0], folder / "train_jax")
    shutil.copytree(both[1], folder / "recorded")
    file, before, after = fault
    path = folder / "train_jax" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1) if before else text)
    run_written(folder / "train_jax", folder / "recorded")
    return verdict(folder / "recorded")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS)
def test_both_sides_train_the_same(fault: str, accumulated: tuple[Path, Path], tmp_path: Path) -> None:
    try:
        outcome = judged(accumulated, tmp_path, FAULTS[fault])
    except SystemExit:
        assert fault == "another length"  # said before anything is trained
        return
    assert (outcome.verdict.status is Status.AGREE) == (fault == "none"), outcome.verdict.sentence
    assert len(outcome.torch.steps) == UPDATES and len(outcome.torch.evaluations) == 2


AVERAGES = {
    "none": ("train.py", "", ""),
    "an average one step late": ("train_step.py", "AVERAGE.update(params,", "AVERAGE.update(state.params,"),
    "the weights evaluated": ("train.py", "state.average.average", "state.params"),
    "another decay": ("train_step.py", "ema_average(0.9)", "ema_average(0.91)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", AVERAGES)
def test_averages_and_mixed_precision(fault: str, averaged: tuple[Path, Path], tmp_path: Path) -> None:
    """In float64 autocast casts nothing, and GradScaler's scale is a power of two."""
    outcome = judged(averaged, tmp_path, AVERAGES[fault])
    assert (outcome.verdict.status is Status.AGREE) == (fault == "none"), outcome.verdict.sentence
    assert all(finding.where == "evaluation" for finding in outcome.verdict.findings)
    assert len(outcome.torch.steps) == UPDATES and len(outcome.torch.evaluations) == 2
