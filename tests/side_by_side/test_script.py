"""The example scripts: a user's own pair, started by `port train`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import side_by_side

ROOT = Path(side_by_side.__file__).parent


def run_scripts(folder: Path, *arguments: str, jax: Path = ROOT / "jax" / "script.py") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "port", "train", "--out", str(folder / "run")]
    command += ["--torch-script", str(ROOT / "pytorch" / "script.py"), "--jax-script", str(jax), "--", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)


@pytest.mark.sweep
def test_in_float64_they_are_the_same(tmp_path):
    done = run_scripts(tmp_path, "--steps", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same over 60 steps in float64" in done.stdout
    assert "largest, in final weights" in done.stdout


@pytest.mark.sweep
def test_in_float32_the_launcher_runs_the_controls_by_itself(tmp_path):
    done = run_scripts(tmp_path, "--steps", "60", "--precision", "float32")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as equal as float32 can say" in done.stdout
    assert len(list((tmp_path / "run" / "scripts").glob("control-*.jsonl"))) == 3


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("approximate=False", "approximate=True", id="tanh GELU"),
        pytest.param("fold_in(key, 0)", "fold_in(key, 1)", id="another mask"),
        pytest.param("weight_decay=1e-2", "weight_decay=1e-4", id="optax's default decay"),
        pytest.param('"jax_enable_x64", precision == "float64"', '"jax_enable_x64", False', id="x64 forgotten"),
    ],
)
def test_a_mistake_in_the_jax_script_is_found(right, wrong, tmp_path):
    source = (ROOT / "jax" / "script.py").read_text()
    assert right in source
    (tmp_path / "wrong.py").write_text(source.replace(right, wrong))
    done = run_scripts(tmp_path, "--steps", "30", jax=tmp_path / "wrong.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "torch and jax differ" in done.stdout


@pytest.mark.sweep
def test_alone_it_says_who_starts_it(tmp_path):
    script = ROOT / "pytorch" / "script.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "port train --torch-script" in done.stderr
