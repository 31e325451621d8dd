"""Translated models beside torchax, and beside the same written by hand: forward and training step, and compiling.

Run with ``pytest -m benchmark -s -n 0 --peer-python PATH tests/benchmarks/test_translated_speed.py``, where PATH is the
Python of an environment with torchax (its help says what is in it; PORT_PEER_PYTHON says the same). Without it the
sides are the translated model and the one written by hand.

Each side is a process that stays (`speed_sides.py`), so that they take turns; a time is the least of all turns, for a
busy machine only adds. Batches are of 4 images, 224 × 224, in float32 on the CPU, with equal settings of XLA. Weights
and inputs are the same, and that all outputs and the gradients' norm are is seen before anything is timed. The aims:
torchax's time at least 1.3 times ours on convolutional models and more than ours on all; ours at most 1.03 times that
of the model written by hand; compiled as fast as torchax.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from flax import nnx

from .handwritten_models import MODELS
from .speed_sides import original

SCRIPT = Path(__file__).with_name("speed_sides.py")
ROOT = Path(__file__).parents[2]
ROUNDS = {"forward": 15, "step": 7}
COMPILED = 2  # times
CLOCKS = ("by the clock", "computed by all threads")
NEAR = {"forward": 1e-4, "step": 2e-3}  # of the largest; behind 50 layers, float32's rounding moves a gradient by 5e-4
Ask = Callable[[str], Any]


def given(name: str) -> dict[str, Any]:
    """Weights, running statistics that are not those of a new model, and images."""
    torch.manual_seed(0)
    model = original(name)
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        if buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return {"state": model.state_dict(), "images": torch.randn(4, 3, 224, 224)}


@contextmanager
def side(python: str, *arguments: str) -> Iterator[Ask]:
    """A process that answers requests, and waits meanwhile."""
    # pytest's own settings, as the number of devices, are not those that a user has.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PYTHON"))}
    here = {"PYTHONPATH": f"{ROOT}{os.pathsep}{SCRIPT.parent}"} if python == sys.executable else {}
    pipe, environment = subprocess.PIPE, {**kept, **here, "JAX_PLATFORMS": "cpu"}
    command = [python, str(SCRIPT), *arguments]
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        stdin, stdout = process.stdin, process.stdout

        def answer() -> Any:
            line = next((line for line in stdout if line.startswith(("{", "["))), None)
            if line is None:
                pytest.fail(f"ended without an answer: {' '.join(command)}")
            return json.loads(line)

        def ask(request: str) -> Any:
            stdin.write(f"{request}\n")
            stdin.flush()
            return answer()

        answer()  # it is ready
        try:
            yield ask
        finally:
            stdin.close()  # it ends


def check_equal(what: str, ours: list[float], theirs: list[float]) -> None:
    """See that both sides compute the same, so that the same is timed."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=NEAR[what] * np.abs(theirs).max(), err_msg=what)


def least(seconds: list[list[float]]) -> np.ndarray:
    """By either clock."""
    return np.min(seconds, axis=0)


def told(what: str, times: dict[str, np.ndarray]) -> str:
    """A line for either clock."""
    lines = []
    for clock, name in enumerate(CLOCKS):
        ours = times["translated"][clock]
        ratios = [f"torchax's over ours {times['torchax'][clock] / ours:.2f}"] if "torchax" in times else []
        ratios += [f"ours over by hand {ours / times['by-hand'][clock]:.2f}"]
        each = ", ".join(f"{side} {seconds[clock]:.3f} s" for side, seconds in times.items())
        lines.append(f"{what:18} {name:24} {each}; {', '.join(ratios)}")
    return "\n".join(lines)


@pytest.mark.benchmark
@pytest.mark.parametrize("name", MODELS)
def test_a_translated_model_beside_torchax_and_by_hand(
    name: str, tmp_path: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    peer = pytestconfig.getoption("peer_python")
    torch.save(given(name), tmp_path / "given.pt")
    pythons = {"torchax": peer} if peer else {}
    pythons |= {"translated": sys.executable, "by-hand": sys.executable}
    with ExitStack() as stack:
        sides = {of: stack.enter_context(side(python, of, name, str(tmp_path))) for of, python in pythons.items()}
        lines = [name]
        for what in ROUNDS:
            compiled = [{of: ask(f"compile {what}") for of, ask in sides.items()} for _ in range(COMPILED)]
            for stage in ("tracing", "compiling"):
                lines.append(
                    told(f"{stage} {what}", {of: least([once[of][stage] for once in compiled]) for of in sides})
                )
            if peer:
                results = {of: ask(f"result {what}") for of, ask in sides.items() if of != "by-hand"}
                check_equal(what, results["translated"], results["torchax"])
            turns = [{of: ask(what) for of, ask in sides.items()} for _ in range(ROUNDS[what])]
            lines.append(told(what, {of: least([turn[of] for turn in turns]) for of in sides}))
    with capsys.disabled():
        print("\n" + "\n".join(lines))
        print(f"load of the machine over 1, 5 and 15 minutes: {os.getloadavg()}")
    if not peer:
        pytest.skip("no --peer-python PATH: timed beside the model written by hand, not beside torchax")


def test_other_results_are_told_from_equal_ones() -> None:
    results = np.random.default_rng(0).normal(size=4000)
    check_equal("forward", list(results + 1e-6), list(results))
    for what, away in (("forward", 1e-3), ("step", 1e-2)):
        moved = results.copy()
        moved[17] += away * np.abs(results).max()
        with pytest.raises(AssertionError, match=what):
            check_equal(what, list(moved), list(results))


@pytest.mark.benchmark
@pytest.mark.parametrize("name", MODELS)
def test_written_by_hand_is_the_same_model(name: str) -> None:
    """It has as many parameters."""
    by_hand = nnx.eval_shape(lambda: MODELS[name](rngs=nnx.Rngs(0)))
    counted = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(by_hand, nnx.Param)))
    assert counted == sum(parameter.numel() for parameter in original(name).parameters())
