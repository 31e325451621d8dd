"""How fast a checkpoint of 2 GB goes through, and how much memory that takes, beside the safetensors library.

Run with ``pytest -m benchmark -s -n 0``; prints, and asserts only that the result is right and that memory is bounded.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from port.weights.checkpoint import open_checkpoint

pytestmark = pytest.mark.benchmark

LAYERS = 30
SHAPE = (4096, 4096)  # float32: 64 MB a tensor

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

OURS = """
import numpy as np
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint
with Watch() as watch, open_checkpoint(source) as checkpoint:
    tensors = [
        Tensor(name, info.shape[::-1], info.dtype, lambda name=name: np.transpose(checkpoint.read(name)))
        for name, info in checkpoint.tensors.items()
    ]
    write_checkpoint(target, tensors, format=FORMAT)
"""

CONVERT = """
import torch
from port.weights.conversion import convert
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(*SHAPE, bias=False) for _ in range(LAYERS)])
with torch.device("meta"):
    model = Layers()
with Watch() as watch:
    convert(source, target, torch=model)
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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 GB of weights."""
    from safetensors.numpy import save_file

    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_file({f"layers.{index}.weight": random.random(SHAPE, np.float32) for index in range(LAYERS)}, path)
    return path


class Measured(NamedTuple):
    """Of two runs, each in its own process: the least time, and the most memory above the interpreter's own."""

    seconds: float
    cpu: float
    memory: int

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu:.2f} s of the processor), {self.memory / 1e6:.0f} MB"


def measured(script: str, source: Path, target: Path) -> Measured:
    runs = []
    for _ in range(2):
        target.unlink(missing_ok=True)
        command = [sys.executable, "-c", textwrap.dedent(WATCH + script + REPORT), str(source), str(target)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append([float(number) for number in printed.split()])
    seconds, cpu, memory = zip(*runs, strict=True)
    return Measured(min(seconds), min(cpu), int(max(memory)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory from Linux's /proc")
@pytest.mark.parametrize("format", ["safetensors", "msgpack"])
def test_two_gigabytes(source: Path, tmp_path: Path, format: str) -> None:
    target, other = tmp_path / "ours", tmp_path / "theirs"
    ours = measured(OURS.replace("FORMAT", repr(format)), source, target)
    print(f"\n{format}, each tensor transposed: {ours}")
    for what, change in (("as it is", "array"), ("transposed", "array.T")):
        theirs = measured(THEIRS.replace("CHANGE", change), source, other)
        print(
            f"  safetensors' library, {what}: {theirs}; ours takes {ours.seconds / theirs.seconds:.2f} of its time, "
            f"{ours.cpu / theirs.cpu:.2f} of the processor's"
        )
    with open_checkpoint(source) as before, open_checkpoint(target) as after:
        largest = max(info.nbytes for info in before.tensors.values())
        assert ours.memory <= 2 * largest + 200e6
        for name in list(before.tensors)[:: LAYERS - 1]:
            np.testing.assert_array_equal(after.read(name), before.read(name).T)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory from Linux's /proc")
def test_a_whole_conversion(source: Path, tmp_path: Path) -> None:
    """What `port convert` does, with its mapping, its accounting and its look for NaN."""
    target = tmp_path / "flax.safetensors"
    ours = measured(CONVERT.replace("SHAPE", repr(SHAPE)).replace("LAYERS", repr(LAYERS)), source, target)
    theirs = measured(THEIRS.replace("CHANGE", "array"), source, tmp_path / "theirs")
    print(f"\nconvert: {ours}\n  safetensors' library, as it is: {theirs}; ratio {ours.seconds / theirs.seconds:.2f}")
    with open_checkpoint(source) as before, open_checkpoint(target) as after:
        largest = max(info.nbytes for info in before.tensors.values())
        assert ours.memory <= 2 * largest + 200e6
        for name in list(before.tensors)[:: LAYERS - 1]:
            kernel = after.read(f"params.{name.removesuffix('weight')}kernel")
            np.testing.assert_array_equal(kernel, before.read(name).T)


def test_the_limit_of_memory_has_teeth(source: Path, tmp_path: Path) -> None:
    """What holds all tensors at once goes far over it."""
    memory = measured(THEIRS.replace("CHANGE", "array.T"), source, tmp_path / "theirs").memory
    assert memory > 4 * np.prod(SHAPE) * 4 + 200e6
