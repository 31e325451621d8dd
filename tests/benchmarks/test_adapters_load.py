"""How fast weights get onto a mesh with an adapter merged or beside, or widened from eight bits; in what memory.

Run with ``pytest -m benchmark -s -n 0``; ``PORT_BENCHMARK_MB=4000`` sets the folder's size. Prints the times beside
those of the weights alone, and asserts that memory is bounded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the memory from Linux's /proc"),
]

MEGABYTES = int(os.environ.get("PORT_BENCHMARK_MB", "600"))
DEVICES = 8


def run(what: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, Path(__file__).with_name("adapter_sides.py"), what, folder, str(MEGABYTES), str(DEVICES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"XLA_FLAGS": ""})
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_onto_eight_devices(tmp_path: Path) -> None:
    written = run("write", tmp_path)
    print(f"\n{written['nbytes'] / 1e9:.2f} GB of bfloat16, largest {written['largest'] / 1e6:.0f} MB")
    plain = run("plain", tmp_path)["seconds"]
    for what in ("plain", "merged", "beside", "widened"):
        told = run(what, tmp_path)
        seconds, beyond = told["seconds"], told["beyond"] / 1e6
        print(f"{what}: {seconds:.2f} s, {seconds / plain:.2f} of the weights alone; {beyond:.0f} MB beyond the arrays")
        assert told["beyond"] <= 2 * written["largest"] + 300e6
