"""Every lesson runs by itself, and both sides print the same: numbers that were computed twice."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import jax
import pytest

from port.lessons import READING_ORDER, find_lesson
from port.lessons.outline import CELL

# Those whose tests run them elsewhere, and the one that only `port train` runs.
ELSEWHERE = {
    *("basics", "mixed_precision", "parallel", "accumulate", "linear_regression", "train", "script", "whole_script"),
    *("fsdp", "sharded_replicas", "sharded_checkpoint"),
}
HERE = [name for name in READING_ORDER if name not in ELSEWHERE]
# What the two sides may say otherwise: the layout of images, the names of dtypes, and whom they miss.
LAYOUTS = {"(4, 1, 8, 8) torch.uint8": "(4, 8, 8, 1) uint8"}


@pytest.fixture(autouse=True)
def _x64_as_before() -> Iterator[None]:
    before = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", before)


def printed(side: str, name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    import_module(f"side_by_side.{side}.{name}").main()
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.sweep) if name == "model" else name for name in HERE]
)
def test_both_sides_print_the_same(name, capsys):
    ours, theirs = (printed(side, name, capsys) for side in ("pytorch", "jax"))
    if name == "processes":  # how many devices there are depends on who asks
        ours, theirs = ours[:1], theirs[:1]
    for first, last in LAYOUTS.items():
        ours = [line.replace(first, last) for line in ours]
    assert ours
    assert ours == theirs


def test_a_difference_would_be_seen(capsys, monkeypatch):
    from side_by_side.jax import optimizer

    right = optimizer.clip_grad_norm
    monkeypatch.setattr(optimizer, "clip_grad_norm", lambda gradients, max_norm: right(gradients, max_norm * 1.0001))
    assert printed("pytorch", "optimizer", capsys) != printed("jax", "optimizer", capsys)


@pytest.mark.parametrize("name", [name for name in READING_ORDER if name != "whole_script"])
def test_each_says_how_to_run_it_and_has_cells(name):
    for side, source in zip(("pytorch", "jax"), find_lesson(name).sources(), strict=True):
        text = "\n".join(source.lines)
        docstring = text.split('"""')[1]
        command = "port train --torch-script" if name == "script" else f"python -m side_by_side.{side}.{name}"
        assert command in docstring
        assert sum(line.startswith(CELL) for line in source.lines) >= 2
        assert 'if __name__ == "__main__":' in text


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["pytorch", "jax"])
@pytest.mark.parametrize("name", [name for name in READING_ORDER if name not in ("script", "whole_script")])
def test_each_runs_as_a_program(name, side, tmp_path):
    command = [sys.executable, "-m", f"side_by_side.{side}.{name}"]
    options = ["--steps", "20", "--out", "run"] if name == "train" else []
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not re.search("Traceback|Warning", done.stderr), done.stderr
