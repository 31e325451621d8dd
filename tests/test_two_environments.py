"""Each side of a run in an environment of its own: torch's has no jax, JAX's has no torch.

`.ci/run` makes both and names their interpreters by two variables; without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import side_by_side

TORCH, JAX = os.environ.get("PORT_TORCH_PYTHON", ""), os.environ.get("PORT_JAX_PYTHON", "")
pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(not (TORCH and JAX), reason="PORT_TORCH_PYTHON and PORT_JAX_PYTHON name no interpreters"),
]
PAIR = Path(side_by_side.__file__).parent
ORIGINAL = Path(__file__).parent / "port" / "scripts" / "trainers" / "accumulated.py"


def port(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "port", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(("python", "other"), [(TORCH, "jax"), (JAX, "torch")], ids=["torch's", "JAX's"])
def test_an_environment_lacks_the_other_side(python: str, other: str) -> None:
    done = subprocess.run([python, "-P", "-c", f"import {other}"], capture_output=True, text=True, check=False)
    assert "No module named" in done.stderr


def pair(folder: Path, jax: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    pythons = ("--torch-python", TORCH, "--jax-python", JAX)
    scripts = ("--torch-script", PAIR / "pytorch" / "script.py", "--jax-script", jax)
    return port("train", *scripts, *pythons, "--plain", "--out", "run", "--", *arguments, cwd=folder)


def test_scripts_that_record_themselves(tmp_path: Path) -> None:
    done = pair(tmp_path, PAIR / "jax" / "script.py", "--steps", "40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same over 40 steps in float64" in done.stdout


def test_a_fault_is_found_across_environments(tmp_path: Path) -> None:
    source = (PAIR / "jax" / "script.py").read_text()
    assert "weight_decay=1e-2" in source
    (tmp_path / "wrong.py").write_text(source.replace("weight_decay=1e-2", "weight_decay=1e-4"))
    done = pair(tmp_path, tmp_path / "wrong.py", "--steps", "40")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "torch and jax differ" in done.stdout


def test_a_script_is_watched_without_jax(tmp_path: Path) -> None:
    shutil.copy(ORIGINAL, tmp_path)
    done = port("script", ORIGINAL.name, "--observe-only", "--torch-python", TORCH, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "observed" / "observation.json").read_text())["script"]["interpreter"] == TORCH


def test_a_script_is_judged_without_jax_on_its_side(tmp_path: Path) -> None:
    shutil.copy(ORIGINAL, tmp_path)
    done = port("script", ORIGINAL.name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    scripts = ("--torch-script", ORIGINAL.name, "--jax-script", "train_jax/train.py")
    done = port("train", *scripts, "--torch-python", TORCH, "--steps", "8", "--plain", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert {name: told["status"] for name, told in verdict.items()} == {"float64": "agree", "float32": "agree"}


def test_a_script_is_written_where_jax_is(tmp_path: Path) -> None:
    shutil.copy(ORIGINAL, tmp_path)
    done = port("script", ORIGINAL.name, "--torch-python", TORCH, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "has no jax" in done.stderr
