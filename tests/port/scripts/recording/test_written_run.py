"""A written trainer that is killed goes on from its checkpoint: its record is that of one that was not, bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from port.scripts import Script
from port.scripts.writing_process import write_script

TRAINERS = Path(__file__).parents[1] / "trainers"
KILLED = """\
import os, runpy, signal, sys

def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

import orbax.checkpoint as ocp
from port.scripts.recording.written_run import RecordedRun

place, sys.argv = sys.argv[1], sys.argv[2:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
record, flush, save = RecordedRun.record, RecordedRun.flush, ocp.CheckpointManager.save
if place == "within an epoch":
    RecordedRun.record = lambda run, step, **values: kill() if step == 12 else record(run, step, **values)
elif place == "before a checkpoint":
    def saved(keeper, number, **values):
        save(keeper, number, **values)
        keeper.wait_until_finished()
    ocp.CheckpointManager.save = saved
    RecordedRun.flush = lambda run: kill() if run._recorder._last["step"] == 9 else flush(run)
else:
    def saved(keeper, number, **values):
        save(keeper, number, **values)
        if number == 1:
            kill()
    ocp.CheckpointManager.save = saved
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(folder: Path, *command: str, record: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    given = ("--float64", "--epochs", "4", "--record", record, "--checkpoints", f"{record}-checkpoints", *more)
    return subprocess.run(
        [sys.executable, *command, str(folder / "train_jax" / "train.py"), *given],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def lines(record: Path) -> list[dict[str, Any]]:
    """Without what time makes."""
    told = [json.loads(line) for line in record.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "start")} for line in told]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was written of accumulated.py, and the record of a run that was never stopped."""
    folder = tmp_path_factory.mktemp("resumed")
    shutil.copy(TRAINERS / "accumulated.py", folder)
    assert not write_script(Script(str(folder / "accumulated.py")), folder / "train_jax").no_trainer
    done = run(folder, record="whole")
    assert not done.returncode, done.stderr
    return folder


@pytest.mark.sweep
@pytest.mark.parametrize("place", ["within an epoch", "before a checkpoint", "while a checkpoint is written"])
def test_a_killed_one_goes_on(place: str, folder: Path) -> None:
    record = place.replace(" ", "-")
    (folder / "killed.py").write_text(KILLED)
    killed = run(folder, "killed.py", place, record=record)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = lines(folder / "whole")
    assert len([one for one in whole if one["kind"] == "step"]) == 20
    assert lines(folder / record) != whole
    done = run(folder, record=record, more=("--resume",))
    assert not done.returncode, done.stderr
    assert lines(folder / record) == whole


@pytest.mark.sweep
def test_a_record_that_is_there_is_not_written_over(folder: Path) -> None:
    before = (folder / "whole").read_bytes()
    done = run(folder, record="whole", more=("--checkpoints", "others"))
    assert done.returncode == 1 and "there is a record at whole already" in done.stderr
    assert "Traceback" not in done.stderr and (folder / "whole").read_bytes() == before


@pytest.mark.sweep
def test_another_dropout_or_order_is_seen(folder: Path) -> None:
    """The comparison above has a way to fail: a pass that is resumed with another step's draws."""
    shutil.copytree(folder / "train_jax", folder / "other" / "train_jax")
    path = folder / "other" / "train_jax" / "train.py"
    text = path.read_text()
    assert "run.batches(training, step)" in text
    path.write_text(text.replace("run.batches(training, step)", "run.batches(training, step + (number == 2))"))
    assert not run(folder / "other", record="whole").returncode
    ours, whole = lines(folder / "other" / "whole"), lines(folder / "whole")
    assert ours[:12] == whole[:12] and ours != whole
