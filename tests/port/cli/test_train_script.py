"""`port train` of a script as it is and the trainer that `port script` wrote of it: words, exit codes, files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TRAINERS = Path(__file__).parents[1] / "scripts" / "trainers"


def port(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "port", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ,
        check=False,
    )


def judged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    both = ("--torch-script", "accumulated.py", "--jax-script", "train_jax/train.py", "--plain")
    return port("train", *both, *arguments, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    shutil.copy(TRAINERS / "accumulated.py", folder)
    assert not port("script", "accumulated.py", cwd=folder).returncode
    return folder


@pytest.mark.sweep
def test_both_are_judged_in_each_precision(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = judged(folder, "--steps", "12", "--out", "run", "--", "--epochs", "2")
    assert not done.returncode, done.stdout + done.stderr
    verdict = json.loads((folder / "run" / "verdict.json").read_text())
    assert {name: told["status"] for name, told in verdict.items()} == {"float64": "agree", "float32": "agree"}
    assert "the original makes only 10 of the 12 updates" in done.stdout
    lines = [json.loads(line) for line in (folder / "run" / "float64" / "torch.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in lines if line["kind"] == "step"]
    assert rates == [0.02] * 5 + [0.01] * 5 and lines[0]["precision"] == "float64"
    assert (folder / "run" / "float32" / "control-1.jsonl").exists() and (folder / "run" / "run.html").exists()
    shutil.rmtree(folder / "run")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in str(path)}
    assert after == before


BAD = {
    "never trains": (
        "for epoch in range(args.epochs):",
        "for epoch in range(0):",
        2,
        "the script never calls backward",
    ),
    "fails by itself": (
        "            optimizer.step()",
        "            raise ValueError('of its own')",
        3,
        "ValueError: of its own",
    ),
    "renamed": ("model", "network", 2, "has no model where it trains: write the folder again with port script"),
    "records itself": ('"""Updates', '"""port.Recorder() Updates', 2, "records itself (port.Recorder)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", ["never trains", "fails by itself", "renamed", "records itself"])
def test_bad_input_is_said_in_words(case: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    before, after, code, words = BAD[case]
    path = tmp_path / "other" / "accumulated.py"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    seen = tmp_path / "other" / "train_jax" / "observed" / "observation.json"
    seen.write_text(seen.read_text().replace(str(folder), str(tmp_path / "other")))
    done = judged(tmp_path / "other", "--steps", "4", "--precision", "float64", "--out", "run")
    assert done.returncode == code and words in done.stderr, done.stdout + done.stderr
    assert done.stderr.count("Traceback") == (case == "fails by itself")


REFUSED = {
    "an option of our trainers": (
        ["--model", "convnet"],
        "port train takes --steps, --precision, --time-limit and --out",
    ),
    "no such interpreter": (["--torch-python", "/no/python"], "there is no Python /no/python"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_at_once(case: str, folder: Path) -> None:
    given, words = REFUSED[case]
    done = judged(folder, *given, "--out", "refused")
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    shutil.rmtree(folder / "refused", ignore_errors=True)


@pytest.mark.sweep
def test_a_smaller_batch_has_its_own_length(tmp_path: Path) -> None:
    shutil.copy(TRAINERS / "summed.py", tmp_path)
    assert not port("script", "summed.py", cwd=tmp_path).returncode
    text = (tmp_path / "train_jax" / "model.py").read_text()
    assert "images.shape[0]" in text and " / 16" not in text
    both = ("--torch-script", "summed.py", "--jax-script", "train_jax/train.py", "--plain", "--precision", "float64")
    done = port("train", *both, "--steps", "12", "--out", "run", cwd=tmp_path)
    assert not done.returncode, done.stdout + done.stderr
    (tmp_path / "train_jax" / "model.py").write_text(text.replace("/ images.shape[0]", "/ 16"))
    done = port("train", *both, "--steps", "12", "--out", "wrong", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
