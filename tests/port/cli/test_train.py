"""`port train`, as a person runs it: a process, its output, its exit code, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import psutil
import pytest

from port.cli import main
from port.records import read_record
from port.report.results import schema

# Stands in for a trainer: nothing but a record.
SCRIPT = """
import os, sys, time
import port
factor, pause = float(sys.argv[1]), float(sys.argv[2])
with port.Recorder(precision="float64", total_steps=40) as record:
    for step in range(40):
        time.sleep(pause)
        record(step, loss=2.5 / (step + 1) * (factor if step == 17 else 1.0))
"""


def port(*arguments: object, cwd: Path, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "port", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, **kwargs)


def scripts(folder: Path, torch: str = SCRIPT, jax: str = SCRIPT) -> list[str]:
    (folder / "a.py").write_text(torch)
    (folder / "b.py").write_text(jax)
    return ["--torch-script", "a.py", "--jax-script", "b.py"]


# .ci/run makes the whole of it anyway: it is one of the README's two commands.
@pytest.mark.parametrize("precisions", [("float64",), pytest.param(("float64", "float32"), marks=pytest.mark.sweep)])
def test_the_main_job(precisions, tmp_path):
    arguments = [] if len(precisions) == 2 else ["--precision", *precisions]
    done = port("train", "--steps", 30, "--out", "run", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch and jax are the same over 30 steps in float64" in done.stdout
    assert ("as equal as float32 can say" in done.stdout) == ("float32" in precisions)
    for name in ("config.json", "environment.json", "verdict.json", "initial.safetensors", "losses.png", "run.html"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    for precision in precisions:
        for side in ("torch", "jax"):
            record = read_record(tmp_path / "run" / precision / f"{side}.jsonl")
            assert (len(record.steps), record.finished, record.precision) == (30, True, precision)
            assert list(record.evaluations) == [21, 29]
            assert {"epoch", "lr", "grad_norm"} <= set(record.steps[0].more)
            assert ("torch.nn.modules.linear.Linear" in record.about.get("layers", [])) == (side == "torch")
            assert (tmp_path / "run" / precision / f"{side}.safetensors").stat().st_size > 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 30
    assert json.loads((tmp_path / "run" / "verdict.json").read_text())["float64"]["status"] == "agree"


@pytest.mark.sweep
def test_json_of_a_run(tmp_path):
    done = port("train", "--steps", 4, "--precision", "float64", "--out", "run", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    jsonschema.validate(result, schema())
    assert (done.returncode, result["exit_code"], result["status"]) == (0, 0, "agree")
    assert {"float64, training loss", "float64, final weights"} <= {row["what"] for row in result["rows"]}
    assert "run/run.html" in result["files"]


def test_scripts_that_agree(tmp_path):
    browser = {**os.environ, "BROWSER": "echo opened %s"}
    done = port("train", *scripts(tmp_path), "--out", "run", "--open", "--", 1, 0, cwd=tmp_path, env=browser)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same over 40 steps in float64" in done.stdout
    assert "torch</span> and" in (tmp_path / "run" / "run.html").read_text()
    assert f"opened {(tmp_path / 'run' / 'run.html').as_uri()}" in done.stdout


@pytest.mark.sweep
def test_scripts_that_differ_exit_with_1_and_name_the_step(tmp_path):
    jax = SCRIPT.replace("factor if", "factor * 1.0000001 if")
    done = port("train", *scripts(tmp_path, jax=jax), "--out", "run", "--", 1, 0, cwd=tmp_path)
    assert done.returncode == 1
    assert "torch and jax differ: the losses part at step 17" in done.stdout
    assert json.loads((tmp_path / "run" / "verdict.json").read_text())["scripts"]["findings"][0]["step"] == 17


BAD = {
    "unknown model": (["--model", "mpl"], "unknown model 'mpl'; there are: mlp, mlp-by-hand, convnet"),
    "unknown dataset": (["--dataset", "minst"], "unknown dataset 'minst'; there are: mnist,"),
    "unknown optimizer": (["--optimizer", "adamv"], "unknown optimizer 'adamv'; there are: adam"),
    "batch size": (["--batch-size", 0], "batch_size must be at least 1"),
    "batch too large": (["--batch-size", 5000], "batch size 5000 exceeds the dataset's 1438"),
    "both lengths": (["--epochs", 1, "--steps", 5], "pass epochs or steps, not both"),
    "learning rate": (["--lr", "-1"], "lr must be above 0"),
    "no number": (["--lr", "fast"], "--lr"),
    "an optimizer of chaos": (
        ["--optimizer", "lbfgs"],
        "the trainers do not support lbfgs: it evaluates the loss several",
    ),
    "unknown option": (["--learning-rate", 1], "--learning-rate"),
    "missing data": (["--dataset", "mnist", "--data-root", "nowhere"], "port train --dataset mnist"),
    "one script": (["--torch-script", "a.py"], "pass both"),
    "no such script": (["--torch-script", "a.py", "--jax-script", "b.py"], "there is no script a.py"),
    "arguments for nobody": (["--", "--steps", 3], "own scripts"),
}


STARTED = {"batch too large", "missing data"}  # a trainer, or torchvision, finds it out


@pytest.mark.parametrize("what", [pytest.param(w, marks=pytest.mark.sweep) if w in STARTED else w for w in BAD])
def test_bad_usage_exits_with_2_and_no_traceback(what, tmp_path, monkeypatch, capsys):
    arguments, message = BAD[what]
    monkeypatch.chdir(tmp_path)
    with terminating():
        assert main(["train", *map(str, arguments)]) == 2
    done = capsys.readouterr()
    assert message in " ".join((done.out + done.err).replace("│", " ").split())
    assert "Traceback" not in done.out + done.err


@contextmanager
def terminating() -> Iterator[None]:
    """Options that cannot be read end the process, with the same exit code."""
    try:
        yield
    except SystemExit as left:
        assert left.code == 2


def test_our_options_are_refused_beside_scripts(tmp_path):
    done = port("train", *scripts(tmp_path), "--steps", 3, cwd=tmp_path)
    assert done.returncode == 2
    assert "arguments for both come after --" in done.stderr


def test_unknown_command_and_no_command(tmp_path):
    assert port("trian", cwd=tmp_path).returncode == 2
    assert port(cwd=tmp_path).returncode == 2
    assert port("--help", cwd=tmp_path).returncode == 0


@pytest.mark.sweep
def test_a_run_folder_is_not_overwritten_unasked(tmp_path):
    arguments = [*scripts(tmp_path), "--out", "run"]
    assert port("train", *arguments, "--", 1, 0, cwd=tmp_path).returncode == 0
    (tmp_path / "run" / "mine.txt").write_text("keep")
    again = port("train", *arguments, "--", 1, 0, cwd=tmp_path)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert (tmp_path / "run" / "mine.txt").exists()
    assert port("train", *arguments, "--overwrite", "--", 1, 0, cwd=tmp_path).returncode == 0
    assert not (tmp_path / "run" / "mine.txt").exists()


def test_a_folder_that_is_no_runs_is_never_emptied(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years")
    done = port("train", *scripts(tmp_path), "--out", "home", "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years"


@pytest.mark.parametrize(
    "death",
    [
        "raise RuntimeError('out of paper')",
        pytest.param("sys.exit('out of paper')", marks=pytest.mark.sweep),
        pytest.param("print('out of paper', flush=True); os._exit(9)", marks=pytest.mark.sweep),
    ],
)
def test_a_trainer_that_dies_ends_the_other(death, tmp_path):
    torch = SCRIPT.replace("        record(", f"        if step == 1: {death}\n        record(")
    started = time.monotonic()
    done = port("train", *scripts(tmp_path, torch=torch), "--out", "run", "--", 1, 1.5, cwd=tmp_path)
    assert time.monotonic() - started < 60  # the other would have taken a minute and longer
    assert done.returncode == 3
    assert "torch scripts ended before it had finished" in done.stderr
    assert "out of paper" in done.stderr
    assert "Traceback" not in done.stderr or "raise" in death
    assert (tmp_path / "run" / "scripts" / "jax.jsonl").exists()
    page = (tmp_path / "run" / "run.html").read_text()
    assert "The run stopped early" in page
    assert "out of paper" in page


@pytest.mark.sweep
def test_ctrl_c_ends_both_and_keeps_the_records(tmp_path):
    # A shell's background job ignores it, and so would the launcher when the tests are run in one.
    program = (
        "import runpy, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "runpy.run_module('port', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, "train", *scripts(tmp_path), "--out", "run", "--", "1", "1.0"]
    launcher = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    records = [tmp_path / "run" / "scripts" / f"{side}.jsonl" for side in ("torch", "jax")]
    give_up = time.monotonic() + 60
    while not all(r.exists() and r.read_text().count("\n") > 3 for r in records):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    trainers = psutil.Process(launcher.pid).children(recursive=True)
    assert len(trainers) >= 2
    launcher.send_signal(signal.SIGINT)
    _, errors = launcher.communicate(timeout=30)
    assert launcher.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not any(trainer.is_running() and trainer.status() != psutil.STATUS_ZOMBIE for trainer in trainers)
    assert all(len(read_record(record).steps) >= 3 for record in records)


@pytest.mark.sweep
def test_a_folder_named_jax_where_one_stands_is_not_imported(tmp_path):
    for name in ("jax", "torch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not me')")
    done = port(
        "train", "--steps", 3, "--precision", "float64", cwd=tmp_path, env={**os.environ, "PYTHONSAFEPATH": "1"}
    )
    assert done.returncode == 0, done.stderr
