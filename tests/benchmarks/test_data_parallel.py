"""What each form of data parallelism costs a step, what the trainers' loops add to it, and whether they wait for data.

Run with ``pytest -m benchmark -s -n 0``; prints, and asserts only that data comes faster than it is trained on. The
forms share one batch of 64 and one machine's cores: what is seen is what each costs over plain jit, not a speed-up.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.benchmark

SCRIPT = Path(__file__).with_name("trainer_times.py")
DEVICES, RANKS = (1, 2, 4, 8), (1, 2)
ROUNDS = 5
CLOCKS = ("by the clock", "computed by all threads")
Times = dict[str, list[tuple[float, float]]]  # of each round, by either clock


def command(*arguments: object, ranks: int | None = None) -> list[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks else []
    return [sys.executable, "-P", *torchrun, str(SCRIPT), *map(str, arguments)]


def environment(devices: int = 1) -> dict[str, str]:
    """Of a process of its own."""
    jax = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    # Several threads of torch's wait for one another by computing: on a busy machine that were most of what they do.
    torch = {"OMP_NUM_THREADS": "1"}
    # glibc gives memory back and asks for it again, now more, now less: from one to three thousand page faults a step,
    # and not as many in the loop as in the bare step. Here it keeps what it has, and there are none.
    glibc = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(4 * 10**9))
    return {**torch, **os.environ, **jax, **glibc, "PYTHONSAFEPATH": "1"}


# %% The forms


@contextmanager
def asked(command: list[str], environment: dict[str, str]) -> Iterator[Callable[[], dict[str, Any]]]:
    """A process that measures a round whenever the function is called, and waits meanwhile."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask() -> dict[str, Any]:
            stdin.write("\n")
            stdin.flush()
            answer = next((line for line in stdout if line.startswith("{")), None)
            if answer is None:
                pytest.fail(f"ended without an answer: {' '.join(command)}")
            return json.loads(answer)

        try:
            yield ask
        finally:
            stdin.close()  # it ends


def test_the_forms_side_by_side() -> None:
    """Milliseconds a step with the placing of its batch, of either framework also as a multiple of one device's."""
    with ExitStack() as stack:
        workers = {
            **{("jax", n): stack.enter_context(asked(command("jax", n), environment(n))) for n in DEVICES},
            **{("torch", n): stack.enter_context(asked(command("pytorch", n, ranks=n), environment())) for n in RANKS},
        }
        rounds = []
        for number in range(ROUNDS + 1):
            answers = {worker: ask() for worker, ask in workers.items()}
            if number:  # in the first, others were still compiling
                rounds.append(answers)
    for clock, name in enumerate(CLOCKS):
        # The least: a busy machine only adds.
        least = {
            (side, form, n): min(answers[side, n][form][clock] for answers in rounds) * 1e3
            for side, n in workers
            for form in rounds[0][side, n]
        }
        for side, numbers, what, of in (("jax", DEVICES, "devices", "plain jit"), ("torch", RANKS, "ranks", "DDP")):
            print(f"\n{side}, ms a step {name} (times {of} on 1)\n{what:24}" + "".join(f"{n:>18}" for n in numbers))
            for form in dict.fromkeys(form for of_side, form, _ in least if of_side == side):
                cells = [least.get((side, form, n)) for n in numbers]
                one = least[side, of, 1]
                print(f"{form:24}" + "".join(" " * 18 if c is None else f"{c:10.1f} ({c / one:5.2f})" for c in cells))


# %% The loop, the bare step and the loader


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Times]:
    """Each side's, on random images of MNIST's number and shape."""
    measured = {}
    for side in ("jax", "pytorch"):
        folder = tmp_path_factory.mktemp(side)
        write_mnist(folder)
        run = subprocess.run(command(f"{side}-loop", folder), env=environment(), stdout=subprocess.PIPE, text=True)
        assert run.returncode == 0
        measured[side] = json.loads(run.stdout.splitlines()[-1])
    return measured


def write_mnist(folder: Path) -> None:
    """The files that torchvision reads: 60,000 training images, and of the test split a single batch."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    random = np.random.default_rng(0)
    for name, count in (("train", 60_000), ("t10k", 64)):
        (raw / f"{name}-images-idx3-ubyte").write_bytes(idx(random.integers(0, 256, (count, 28, 28), np.uint8)))
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(idx(random.integers(0, 10, count, np.uint8)))


def idx(values: np.ndarray) -> bytes:
    """The idx format: 0, 0, 8 (unsigned byte), number of axes, each axis as a big-endian int32, the bytes."""
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes() + values.tobytes()


@pytest.mark.parametrize("side", ["jax", "pytorch"])
def test_what_the_loop_adds_to_the_bare_step(times: dict[str, Times], side: str) -> None:
    """Prints only: a few hundredths are what a busy machine adds to either."""
    print()
    for clock, name in enumerate(CLOCKS):
        loop, bare = ([seconds[clock] for seconds in times[side][what]] for what in ("loop", "bare"))
        # A round of the loop lies between two of the bare step.
        ratios = [2 * of_loop / sum(bare[place : place + 2]) for place, of_loop in enumerate(loop)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{side:8} {name:24} loop {min(loop) * 1e3:7.2f} ms a step, bare step {min(bare) * 1e3:7.2f} ms: "
            f"{min(loop) / min(bare):5.3f} times; round by round {middle:5.3f} (quartiles {low:5.3f} to {high:5.3f})"
        )


@pytest.mark.parametrize("side", ["jax", "pytorch"])
def test_data_comes_faster_than_it_is_trained_on(times: dict[str, Times], side: str) -> None:
    loader, bare = (statistics.median(wall for wall, _ in times[side][what]) for what in ("loader", "bare"))
    print(
        f"\n{side:8} loader {1 / loader:7.0f} batches/s ({loader * 1e3:.2f} ms each), "
        f"step {1 / bare:5.0f} steps/s ({bare * 1e3:.1f} ms each): {bare / loader:.0f} times as fast"
    )
    assert loader < bare
