"""How fast a checkpoint is converted, and in how much memory, beside safetensors' own read and write of it.

Run with ``pytest -m benchmark -s -n 0``; ``PORT_BENCHMARK_MB=2000`` sets the checkpoint's size. Prints times and their
ratios, side by side in one run, and asserts that the result is right and that memory is bounded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from port.weights.checkpoint import open_checkpoint

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory from Linux's /proc"),
]

SHAPE = (4096, 4096)  # float32: 67 MB a tensor
LARGEST = 4 * SHAPE[0] * SHAPE[1]
LAYERS = max(8, round(int(os.environ.get("PORT_BENCHMARK_MB", "540")) * 10**6 / LARGEST))
LIMIT = 2 * LARGEST + 200_000_000
"""Bytes of memory that a conversion may take, whatever the checkpoint's size: of its own, without mapped files."""
RUNS = 3

WATCH = """
import sys, threading, time

def anonymous() -> int:
    "The process's own memory in bytes: without the pages of mapped files."
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

class Watch:
    "The peak of `anonymous` over a block, above what it was before, and the time that the block took."
    def __enter__(self):
        self.before, self.peak, self.over = anonymous(), 0, False
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        self.begin, self.cpu = time.perf_counter(), time.process_time()
        return self
    def look(self):
        while not self.over:
            self.peak = max(self.peak, anonymous())
            time.sleep(0.005)
    def __exit__(self, *error):
        self.seconds, self.cpu = time.perf_counter() - self.begin, time.process_time() - self.cpu
        self.over = True
        self.thread.join()

source, target = sys.argv[1:]
"""

CONVERT = """
import torch
import orbax.checkpoint, jax  # imported before the clock runs, as torch is
from port.weights.conversion import convert
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(*SHAPE, bias=False) for _ in range(LAYERS)])
with torch.device("meta"):
    model = Layers()
with Watch() as watch:
    convert(source, target, torch=model, reverse=REVERSE)
"""

THEIRS = """
import numpy as np
from safetensors.numpy import load_file, save_file
with Watch() as watch:
    arrays = load_file(source)
    save_file({name: np.ascontiguousarray(CHANGE) for name, array in arrays.items()}, target)
"""

REPORT = "\nprint(watch.seconds, watch.cpu, watch.peak - watch.before)"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A torch model's weights."""
    from safetensors.numpy import save_file

    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_file({f"layers.{index}.weight": random.random(SHAPE, np.float32) for index in range(LAYERS)}, path)
    yield path
    shutil.rmtree(path.parent)


class Measured(NamedTuple):
    """Of one run in its own process: the time, and the most memory above the interpreter's own."""

    seconds: float
    cpu: float
    memory: int

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu:.2f} s of the processor), {self.memory / 1e6:.0f} MB"


def measured(script: str, source: Path, target: Path) -> Measured:
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    command = [sys.executable, "-c", textwrap.dedent(WATCH + script + REPORT), str(source), str(target)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, cpu, memory = (float(number) for number in printed.split()[-3:])
    return Measured(seconds, cpu, int(memory))


def converting(*, reverse: bool = False) -> str:
    facts = {"SHAPE": repr(SHAPE), "LAYERS": repr(LAYERS), "REVERSE": repr(reverse)}
    script = CONVERT
    for name, value in facts.items():
        script = script.replace(name, value)
    return script


def beside_theirs(what: str, script: str, source: Path, target: Path, weights: Path) -> None:
    """Run ours and theirs in turns, so that both meet what else the machine does; print the least of each."""
    ours, theirs = [], []
    for _ in range(RUNS):
        theirs.append(measured(THEIRS.replace("CHANGE", "array"), weights, target.parent / "theirs"))
        ours.append(measured(script, source, target))
    (target.parent / "theirs").unlink()
    least, reference = min(ours), min(theirs)
    print(
        f"\n{what}, {LAYERS * LARGEST / 1e9:.2f} GB: {least}\n  safetensors' own read and write: {reference}; "
        f"ours takes {least.seconds / reference.seconds:.2f} of its time, "
        f"{least.cpu / reference.cpu:.2f} of the processor's"
    )
    assert max(run.memory for run in ours) <= LIMIT


@pytest.mark.parametrize("suffix", ["safetensors", "orbax", "msgpack", "npz"])
def test_to_flax(source: Path, tmp_path: Path, suffix: str) -> None:
    """What `port convert` does, with its mapping, its accounting and its look for NaN; every kernel is transposed."""
    target = tmp_path / f"flax.{suffix}"
    beside_theirs(f"safetensors → {suffix}", converting(), source, target, source)
    with open_checkpoint(source) as before, open_checkpoint(target) as after:
        for name in list(before.tensors)[:: LAYERS - 1]:
            kernel = after.read(f"params.{name.removesuffix('weight')}kernel")
            np.testing.assert_array_equal(kernel, before.read(name).T)


@pytest.mark.parametrize("suffix", ["safetensors", "orbax"])
def test_back_to_torch_and_from_torch(source: Path, tmp_path: Path, suffix: str) -> None:
    """From Flax to .pth, and from that .pth to Flax."""
    flax, torchs, again = tmp_path / f"flax.{suffix}", tmp_path / "torch.pth", tmp_path / f"again.{suffix}"
    measured(converting(), source, flax)
    beside_theirs(f"{suffix} → .pth", converting(reverse=True), flax, torchs, source)
    with open_checkpoint(source) as before, open_checkpoint(torchs) as after:
        for name in list(before.tensors)[:: LAYERS - 1]:
            np.testing.assert_array_equal(after.read(name), before.read(name))
    beside_theirs(f".pth → {suffix}", converting(), torchs, again, source)
    with open_checkpoint(flax) as before, open_checkpoint(again) as after:
        for name in list(before.tensors)[:: LAYERS - 1]:
            np.testing.assert_array_equal(after.read(name), before.read(name))


def test_the_limit_of_memory_has_teeth(source: Path, tmp_path: Path) -> None:
    """What holds all tensors at once goes over it."""
    assert measured(THEIRS.replace("CHANGE", "array.T"), source, tmp_path / "theirs").memory > LIMIT
