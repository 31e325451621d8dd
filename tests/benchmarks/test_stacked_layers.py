"""What scanning a stack of layers costs and saves, beside the same layers in a list.

Run with ``pytest -m benchmark -s -n 0 tests/benchmarks/test_stacked_layers.py``; prints each time and the ratios. A
LLaMA of 4 and of 32 layers, translated with ``scan`` and without, in one process and in turns; a time is the least of
all turns. The aims: 32 layers compile in at most 1.3 times the time of 4, the source has as many lines, a step in
float32 is not slower than with the list, and outputs and gradients in float64 are those of the list to 1e-9.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port
from port.translation import Translation

from ..port.translation.stacked_nets import Config, LLaMA
from ..port.translation.test_stacking import in_torch

pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]

DEPTHS = (4, 32)
COMPILED, STEPS = 3, 15  # times
RATE = 1e-2


@cache
def translated(depth: int, *, scan: bool) -> Translation:
    torch.manual_seed(0)
    config = Config(vocab=64, width=64, heads=4, hidden=160, depth=depth)
    return port.translate(LLaMA(config), (given(),), scan=scan, static=True, check=False)


def given() -> torch.Tensor:
    return torch.randint(64, (4, 24), generator=torch.Generator().manual_seed(1))


def step_of(made: Translation) -> tuple[Callable[..., Any], Any]:
    """A step of gradient descent, and what it is given."""
    graph, params, rest = nnx.split(made.build(), nnx.Param, ...)  # type: ignore[misc]
    tokens = made.to_flax(given())[0]

    def step(params: Any) -> Any:
        def loss(params: Any) -> Any:
            logits = nnx.merge(graph, params, rest, copy=True)(tokens)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - RATE * g, params, gradients)

    return step, params


def test_compiling_and_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(translated(depth, scan=True).stacked == ("layers",) for depth in DEPTHS)
    sides = {(depth, scan): step_of(translated(depth, scan=scan)) for depth in DEPTHS for scan in (False, True)}
    compiled: dict[Any, Any] = {}
    seconds: dict[Any, list[float]] = {side: [] for side in sides}
    for _ in range(COMPILED):
        for side, (step, params) in sides.items():
            jax.clear_caches()
            start = time.process_time()
            compiled[side] = jax.jit(step).lower(params).compile()
            seconds[side].append(time.process_time() - start)
    steps: dict[Any, list[float]] = {side: [] for side in sides}
    for _ in range(STEPS):
        for side, (_, params) in sides.items():
            start = time.perf_counter()
            jax.block_until_ready(compiled[side](params))
            steps[side].append(time.perf_counter() - start)
    shallow, deep = DEPTHS
    least = {side: min(times) for side, times in seconds.items()}
    quickest = {side: min(times) for side, times in steps.items()}
    with capsys.disabled():
        print()
        for depth, scan in sides:
            form = "stack" if scan else "list"
            lines = len(translated(depth, scan=scan).source.splitlines())
            print(f"{depth:3} layers, {form:5}: compiled in {least[depth, scan]:.2f} s of CPU, ", end="")
            print(f"a step {1e3 * quickest[depth, scan]:.2f} ms, {lines} lines")
        for scan, form in ((False, "list"), (True, "stack")):
            print(f"compiling {deep} layers against {shallow}, {form}: {least[deep, scan] / least[shallow, scan]:.2f}")
        for depth in DEPTHS:
            print(f"a step of {depth} layers, stack against list: {quickest[depth, True] / quickest[depth, False]:.2f}")
    losses = {side: float(each(params)[0]) for side, each in compiled.items() for params in [sides[side][1]]}
    for depth in DEPTHS:
        np.testing.assert_allclose(losses[depth, True], losses[depth, False], rtol=1e-5)


@pytest.mark.parametrize("depth", DEPTHS)
def test_it_is_the_list_in_float64(depth: int, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (in_float64(translated(depth, scan=scan)) for scan in (False, True))
    assert one.keys() == other.keys()
    apart = {name: np.abs(other[name] - array).max() / np.abs(array).max() for name, array in one.items()}
    worst = max(apart, key=lambda name: apart[name])
    with capsys.disabled():
        print(f"\n{depth} layers: {len(apart)} tensors, the furthest apart is {worst}: {apart[worst]:.1e}")
    assert apart[worst] <= 1e-9


def in_float64(made: Translation) -> dict[str, np.ndarray]:
    """The output, and the gradients by torch's names."""
    with jax.enable_x64(True):
        graph, params, rest = nnx.split(made.build(param_dtype=jnp.float64), nnx.Param, ...)  # type: ignore[misc]
        tokens = made.to_flax(given())[0]

        def loss(params: Any) -> Any:
            logits = nnx.merge(graph, params, rest, copy=True)(tokens)
            return (logits**2).mean(), logits

        gradients, logits = jax.jit(jax.grad(loss, has_aux=True))(params)
        return {"output": np.asarray(logits), **in_torch(made.mapping, gradients)}
