"""A standalone folder is run where port cannot be imported, and trains as the one that imports it does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from port.judging import Status
from port.scripts import Script
from port.scripts.writing.standalone import make_standalone
from port.scripts.writing_process import write_script

TRAINERS = Path(__file__).parents[1] / "trainers"
WITHOUT = """
import runpy, sys
from pathlib import Path
sys.modules["port"] = None
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], None, "__main__")
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, *command)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)


def losses(text: str) -> list[str]:
    return re.findall(r"loss\w* [\d.]+", text)


def takes_from_port(text: str) -> bool:
    return re.search(r"^ *(from|import) port\b", text, re.MULTILINE) is not None


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "epochs"), [("accumulated", "3"), ("small_gan", "1"), ("averaged", "1")])
def test_it_trains_without_port(name: str, epochs: str, tmp_path: Path) -> None:
    text = (TRAINERS / f"{name}.py").read_text()
    seeded = text.replace("import torch\n", "import torch\n\ntorch.manual_seed(5)\n", 1)  # both runs draw the same
    assert seeded != text
    (tmp_path / f"{name}.py").write_text(seeded)
    given = ("--epochs", epochs) if name != "averaged" else ()
    written = write_script(Script(str(tmp_path / f"{name}.py"), given), tmp_path / "alone", standalone=True)
    assert written.status is Status.AGREE and not written.no_trainer, written
    for path in (tmp_path / "alone").glob("*.py"):
        assert not takes_from_port(path.read_text()), path
    alone = run(tmp_path, "-c", WITHOUT, "alone/train.py", *given)
    assert not alone.returncode, alone.stderr
    beside = run(tmp_path, "alone/train.py", *given, "--checkpoints", "again")
    assert losses(alone.stdout) and losses(alone.stdout) == losses(beside.stdout)


def test_what_is_taken_from_port_is_copied(tmp_path: Path) -> None:
    source = "from port.nn import functional as F\n\n\ndef f(x, y):\n    return F.cross_entropy(x, y)\n"
    for name in ("train_step.py", "original.py"):
        (tmp_path / name).write_text(source)
    make_standalone(tmp_path)
    text = (tmp_path / "train_step.py").read_text()
    assert takes_from_port(source) and not takes_from_port(text) and "def cross_entropy(" in text
    assert (tmp_path / "original.py").read_text() == source  # the script's own
    make_standalone(tmp_path)
    assert (tmp_path / "train_step.py").read_text() == text
    other = tmp_path / "other.py"
    other.write_text(source)
    assert run(tmp_path, "-c", WITHOUT, "other.py").returncode  # and without it, it is missed
    assert not run(tmp_path, "-c", WITHOUT, "train_step.py").returncode
