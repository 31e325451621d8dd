"""How long `import port` takes beside `import flax`, in fresh processes.

Run with ``pytest -m benchmark -s -n 0 tests/benchmarks/test_import_time.py``; prints the least and the median of ten,
in turns. The aim: at most 1.5 times `import flax`, also once the public names that
need no extra are taken, which is when their modules are imported.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.benchmark

TURNS = 10
STATEMENTS = {
    "import flax": "import flax",
    "from flax import nnx": "from flax import nnx",
    "import port": "import port",
    "what loads and compares": "import port; port.load, port.save, port.to_flax, port.compare, port.Recorder, port.nn",
    "port --help": "import contextlib, io; from port.cli import main\n"
    "with contextlib.redirect_stdout(io.StringIO()): main(['--help'])",
}


def seconds(statement: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - began


def test_import_time() -> None:
    for statement in STATEMENTS.values():
        seconds(statement)  # compiles what it imports
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(TURNS):
        for name, statement in STATEMENTS.items():
            taken[name].append(seconds(statement))
    flax = min(taken["import flax"])
    for name, each in taken.items():
        print(
            f"{name:<24} least {min(each):.2f} s, median {statistics.median(each):.2f} s, {min(each) / flax:.2f} × flax"
        )
