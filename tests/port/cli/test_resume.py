"""A run that was killed goes on as if it had not been: the same record and the same weights, bit for bit."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from port.cli import main
from port.cli import train as train_command
from side_by_side.config import Config

PORT = (sys.executable, "-P", "-m", "port", "train", "--plain", "--precision", "float64")
SECONDS = 300  # that a run may take: one that hangs is a failure
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


def lines(record: Path) -> list[dict[str, Any]]:
    """The record without what a clock says."""
    clock = {"seconds", "start", "duration"}
    return [
        {name: value for name, value in json.loads(line).items() if name not in clock}
        for line in record.read_text().splitlines()
    ]


def assert_the_same_run(one: Path, other: Path, sides: tuple[str, ...] = ("torch", "jax")) -> None:
    for side in sides:
        assert lines(one / "float64" / f"{side}.jsonl") == lines(other / "float64" / f"{side}.jsonl")
        weights = [(folder / "float64" / f"{side}.safetensors").read_bytes() for folder in (one, other)]
        assert weights[0] == weights[1]


# %% One device, in this process


class Killed(BaseException):
    """Ends a trainer as a kill does: nothing is caught, nothing is written behind it."""


def train_of(side: str) -> Callable[[Config, str], None]:
    import side_by_side.jax.train
    import side_by_side.pytorch.train

    return {"torch": side_by_side.pytorch.train.train, "jax": side_by_side.jax.train.train}[side]


def train(side: str, config: Config, monkeypatch: pytest.MonkeyPatch, *, until: int | None = None) -> None:
    """Train; up to a step whose record is then cut off in the middle of a line."""
    module = sys.modules[train_of(side).__module__]
    right = module.train_batches  # type: ignore[attr-defined]

    def until_killed(config: Config, examples: Any, plan: Any, first_step: int = 0) -> Any:
        for step, batch in enumerate(right(config, examples, plan, first_step), start=first_step):
            if step == until:
                raise Killed
            yield batch

    if until is None:
        train_of(side)(config, "float64")
        return
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, "train_batches", until_killed)
        train_of(side)(config, "float64")
    record = config.file("float64", f"{side}.jsonl")
    record.write_bytes(record.read_bytes()[:-9])


RUN = Config(steps=30, dropout=0.2, optimizer="adam", schedule="cosine", augment=True, checkpoint_every=4)


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["torch", "jax"])
def test_resumed_it_is_the_same_run(side, tmp_path, monkeypatch):
    whole, resumed = (replace(RUN, out=tmp_path / name) for name in ("whole", "resumed"))
    train(side, whole, monkeypatch)
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed", ignore=shutil.ignore_patterns("float64"))
    for killed_at in (3, 25):  # before the first checkpoint, and in the second epoch
        train(side, replace(resumed, resume=killed_at > 3), monkeypatch, until=killed_at)
    train(side, replace(resumed, resume=True), monkeypatch)
    assert_the_same_run(tmp_path / "whole", tmp_path / "resumed", (side,))


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["torch", "jax"])
@pytest.mark.parametrize("fault", ["the batches from the start again", "the optimizer's state forgotten"])
def test_a_fault_in_resuming_is_seen(side, fault, tmp_path, monkeypatch):
    whole, resumed = (replace(RUN, out=tmp_path / name) for name in ("whole", "resumed"))
    train(side, whole, monkeypatch)
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed", ignore=shutil.ignore_patterns("float64"))
    train(side, resumed, monkeypatch, until=10)
    module = sys.modules[train_of(side).__module__]
    if fault == "the batches from the start again":
        right = module.train_batches
        monkeypatch.setattr(
            module, "train_batches", lambda config, examples, plan, first_step: right(config, examples, plan)
        )
    elif side == "torch":
        from side_by_side.pytorch import checkpoint

        right = checkpoint.restore_checkpoint
        monkeypatch.setattr(
            checkpoint,
            "restore_checkpoint",
            lambda path, model, optimizer, schedule: right(path, model, copy.deepcopy(optimizer), schedule),
        )
    else:
        from side_by_side.jax import checkpoint

        right = checkpoint.restore_checkpoint
        monkeypatch.setattr(
            checkpoint,
            "restore_checkpoint",
            lambda path, state: (right(path, state)[0], right(path, state)[1]._replace(opt_state=state.opt_state)),
        )
    train(side, replace(resumed, resume=True), monkeypatch)
    with pytest.raises(AssertionError):
        assert_the_same_run(tmp_path / "whole", tmp_path / "resumed", (side,))


# %% What cannot be resumed


def run_folder(folder: Path, **options: Any) -> Path:
    folder.mkdir()
    config = {"model": "mlp", "steps": 5, "lr": 0.1, **options}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--resume"], "--resume continues an existing run: name its folder with --out"),
        (["--resume", "--out", "nothing"], "nothing has no run to resume: its config.json cannot be read"),
        (["--resume", "--out", "run", "--lr", "0.2"], "run was started with lr 0.1, not 0.2: it resumes with its own"),
        (["--resume", "--out", "run", "--model", "convnet"], "started with model mlp, not convnet"),
        (["--resume", "--out", "scripts"], "scripts is a run of your own scripts"),
        (["--resume", "--out", "strange"], "strange.config.json has colour, which is not an option"),
        (["--resume", "--out", "broken"], "broken has no run to resume"),
        (["--resume", "--out", "list"], "list has no run to resume: its config.json has no options"),
        (["--resume", "--out", "changed"], "changed.config.json was changed, and cannot be resumed: "),
        (["--resume", "--out", "run", "--overwrite"], "--resume continues the run that --overwrite would remove"),
    ],
)
def test_what_cannot_be_resumed(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "run")
    run_folder(tmp_path / "strange", colour="red")
    (run_folder(tmp_path / "broken") / "config.json").write_text("{")
    run_folder(tmp_path / "changed", batch_size="64")
    (run_folder(tmp_path / "list") / "config.json").write_text("[1]")
    (run_folder(tmp_path / "scripts") / "config.json").write_text('{"scripts": ["a.py", "b.py"]}')
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    assert main(["train", *arguments]) == 2
    assert re.search(says, capsys.readouterr().err)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_time_limit_goes_on_unless_another_is_given(tmp_path):
    out = run_folder(tmp_path / "run", time_limit=900.0)
    for given, limit in (({}, 900.0), ({"time_limit": 30.0}, 30.0)):
        begun = train_command._begun(Config(out=out, resume=True, **given))
        assert (begun.time_limit, begun.out, begun.resume, begun.lr) == (limit, out, True, 0.1)


# %% Killed for real: either trainer, any rank


def start(out: Path, *flags: str) -> subprocess.Popen[str]:
    command = (*PORT, "--out", str(out), *flags)
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def processes_of(out: Path) -> list[psutil.Process]:
    """All that were started for the run in this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(out) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def rank_of(out: Path, side: str, rank: int) -> psutil.Process:
    """A side's trainer, not what has started it."""
    module = {"torch": "side_by_side.pytorch.train", "jax": "side_by_side.jax.train"}[side]
    for process in processes_of(out):
        command = process.cmdline()
        launches = "torch.distributed.run" in command or "port.training.launch" in command
        if module in command and not launches:
            environment = process.environ()
            if int(environment.get("RANK", environment.get("JAX_PROCESS_ID", 0))) == rank:
                return process
    raise AssertionError(f"no rank {rank} of {side}")


def wait_for_step(running: subprocess.Popen[str], record: Path, step: int) -> None:
    give_up = time.monotonic() + SECONDS
    while not record.exists() or len(record.read_bytes().splitlines()) <= step + 1:
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < give_up
        time.sleep(0.005)


def ended(running: subprocess.Popen[str], out: Path) -> str:
    """What it said at its end; nothing that it had started is left, within a minute."""
    try:
        said = running.communicate(timeout=60)[0]
    finally:
        running.kill()
    assert running.returncode == 3, said
    assert "Traceback" not in said.partition("its last lines")[0]
    assert processes_of(out) == []
    return said


FORMS = {
    "one device": (),
    "DDP 2, pmap 2": ("--devices", "2"),
    "DDP 4, sharding 4": ("--devices", "4", "--parallel", "sharding"),
    "DDP 2, 2 processes": ("--processes", "2", "--parallel", "shard-map"),
    "FSDP 4, fsdp 4": ("--devices", "4", "--parallel", "fsdp"),
    "FSDP 2, 2 processes": ("--processes", "2", "--parallel", "fsdp"),
}
KILLS = [
    ("one device", "torch", 0, 2),
    ("one device", "jax", 0, 33),
    ("DDP 2, pmap 2", "torch", 0, 20),
    ("DDP 2, pmap 2", "torch", 1, 21),
    ("DDP 2, pmap 2", "jax", 0, 7),
    ("DDP 4, sharding 4", "torch", 3, 20),  # the order of more than two summands matters
    ("DDP 2, 2 processes", "jax", 0, 30),
    ("DDP 2, 2 processes", "jax", 1, 12),
    ("FSDP 4, fsdp 4", "torch", 2, 18),
    ("FSDP 4, fsdp 4", "jax", 0, 25),
    ("FSDP 2, 2 processes", "torch", 0, 9),
    ("FSDP 2, 2 processes", "jax", 1, 16),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Callable[[str], Path]:
    """Runs that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")

    def whole(form: str) -> Path:
        out = folder / str(list(FORMS).index(form))
        if not out.exists():
            running = start(out, *FLAGS, *FORMS[form])
            said = running.communicate(timeout=SECONDS)[0]
            assert running.returncode == 0, said
        return out

    return whole


FLAGS = ("--model", "convnet", "--steps", "40", "--checkpoint-every", "7", "--accumulate", "2", "--clip-norm", "1")


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize(("form", "side", "rank", "step"), KILLS)
def test_killed_and_resumed(form, side, rank, step, whole, tmp_path):
    undisturbed, out = whole(form), tmp_path / "killed"
    running = start(out, *FLAGS, *FORMS[form])
    wait_for_step(running, out / "float64" / f"{side}.jsonl", step)
    rank_of(out, side, rank).send_signal(signal.SIGKILL)
    said = ended(running, out)
    assert f"{side} float64 ended before it had finished" in said
    assert "SIGKILL" in said
    if (form != "one device" and side == "torch") or form.endswith("2 processes"):
        assert f"rank {rank}" in said
    resumed = subprocess.run(
        (*PORT[:6], "--out", out, "--resume"), env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert_the_same_run(undisturbed, out)


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["torch", "jax"])
def test_a_part_of_a_sharded_checkpoint_that_is_missing_is_named(side, whole, tmp_path):
    """Rank 1's file, and the data that JAX's process 1 has written for its devices."""
    out = tmp_path / "cut short"
    shutil.copytree(whole("FSDP 2, 2 processes"), out)
    record = out / "float64" / f"{side}.jsonl"
    record.write_text("".join(record.read_text().splitlines(keepends=True)[:-1]))  # it has not come to its end
    checkpoint = record.with_suffix(".checkpoint") / "35"
    parts = list(checkpoint.rglob("__1_0.distcp" if side == "torch" else "ocdbt.process_1/d/*"))
    assert parts
    for part in parts:
        part.unlink()
    done = subprocess.run(
        (*PORT[:6], "--out", out, "--resume"), env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode not in (0, 1), done.stdout
    assert "Traceback" not in done.stderr
    said = "'__1_0.distcp' is not a file of the folder" if side == "torch" else "cannot be read as a checkpoint"
    assert said in done.stderr


@pytest.mark.sweep
@pytest.mark.parametrize(("form", "side"), [("DDP 2, pmap 2", "torch"), ("DDP 2, 2 processes", "jax")])
def test_a_rank_that_hangs_is_named(form, side, tmp_path):
    out = tmp_path / "hanging"
    running = start(out, *FLAGS, "--steps", "5000", *FORMS[form], "--time-limit", "10")
    wait_for_step(running, out / "float64" / f"{side}.jsonl", 5)
    rank_of(out, side, 1).suspend()
    said = ended(running, out)
    assert "rank 1 has been stopped (SIGSTOP)" in said or "rank 1 has stopped responding" in said


@pytest.mark.sweep
def test_ranks_that_were_told_otherwise_are_named(tmp_path):
    """Each rank has its own command line, as on two machines; rank 1's says another learning rate."""
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, sys\n"
        "from side_by_side.alone import run_alone\n"
        "from side_by_side.pytorch.train import train\n"
        "if os.environ['RANK'] == '1':\n"
        "    sys.argv += sys.argv[1].split()\n"
        "del sys.argv[1]\n"
        "run_alone(train)\n"
    )
    for other, what in (("--lr 0.3", "config"), ("--seed 3", "config"), ("--out other", "set of initial weights")):
        flags = ("--devices", "2", "--steps", "3", "--precision", "float64", "--out", str(tmp_path / "run"))
        if what != "config":  # another file of weights, on the other machine
            from port.weights import save
            from side_by_side.pytorch.model import build

            (tmp_path / "other").mkdir()
            save(build(Config(seed=9)), tmp_path / "other" / "initial.safetensors")
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        done = subprocess.run(
            (*torchrun, str(script), other, *flags),
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode != 0
        assert f"rank 1 has another {what} than rank 0" in done.stderr
        assert not (tmp_path / "run" / "float64").exists()


@pytest.mark.sweep
def test_a_port_in_use_is_named(tmp_path):
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        environment = {**ENVIRONMENT, "JAX_COORDINATOR_ADDRESS": address, "JAX_PROCESS_ID": "0"}
        trainer = (sys.executable, "-P", "-m", "side_by_side.jax.train", "--processes", "2", "--time-limit", "20")
        done = subprocess.run(
            (*trainer, "--out", str(tmp_path / "run")), env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    assert done.returncode == 2, done.stderr
    assert address in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
