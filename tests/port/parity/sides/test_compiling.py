"""XLA optimises as hard as pays off for a program that runs once; its results stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import port
from models.keeping import Keeping, X
from port.judging import Status
from port.parity.sides import compiling
from port.parity.sides.compiling import LITTLE, USUAL, Effort, Work, effort_for, run_once, work_of
from port.translation.verify import prove


def work(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Work:
    return work_of(jax.make_jaxpr(function)(*(jnp.zeros(shape) for shape in shapes)).jaxpr)


def convolved(stride: int = 1, groups: int = 1) -> Callable[..., Any]:
    return lambda x, kernel: jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def backward(function: Callable[..., Any], *by: int) -> Callable[..., Any]:
    return jax.grad(lambda *args: function(*args).sum(), by)


def test_convolutions_that_are_computed_in_loops_are_seen() -> None:
    image, kernel = (2, 8, 8, 4), (3, 3, 4, 6)
    dense = 2 * 2 * 64 * 9 * 4 * 6
    assert work(convolved(), image, kernel).looped == 0
    assert work(convolved(2), image, kernel).looped == 0, "forward it is as good as any"
    assert work(backward(convolved(), 0, 1), image, kernel).looped == 0
    assert work(backward(convolved(2), 0), image, kernel).looped == dense, "the zeros are computed, too"
    assert work(convolved(1, 2), image, (3, 3, 2, 6)).looped == dense, "all groups with all others"
    assert work(backward(convolved(1, 2), 0, 1), image, (3, 3, 2, 6)).looped == 3 * dense


def test_a_loop_is_compiled_once_and_run_often() -> None:
    def looped(length: int) -> Work:
        return work(lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c) + 1, None), x, length=length)[0], (5,))

    once, often = looped(1), looped(30)
    assert once.equations == often.equations == 2
    assert (once.transcendental, often.transcendental, often.elements) == (5, 150, 150)


def test_effort_is_spared_where_compiling_takes_most_of_the_time() -> None:
    assert effort_for(Work(equations=10_000, looped=3e8, elements=1e8)) is LITTLE
    assert effort_for(Work(equations=1_600, looped=1.2e9)) is USUAL, "a vision transformer's patches"
    assert effort_for(Work(equations=100, elements=1e10)) is USUAL
    assert effort_for(Work(equations=100, transcendental=1e9)) is USUAL
    assert effort_for(Work()) is USUAL


def step(x: jax.Array, kernel: jax.Array) -> Any:
    return backward(lambda x, kernel: jnp.tanh(convolved(2)(x, kernel)).std(), 0, 1)(x, kernel)


@pytest.mark.parametrize("effort", [USUAL, LITTLE, Effort({"xla_cpu_no_such_option": True})])
def test_the_results_are_the_same(effort: Effort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_is_configured", lambda: False)
    monkeypatch.setattr(compiling, "effort_for", lambda work: effort)
    numbers = np.random.default_rng(0)
    with jax.enable_x64(True):
        given = jnp.asarray(numbers.normal(size=(2, 8, 8, 4))), jnp.asarray(numbers.normal(size=(3, 3, 4, 6)))
        for ours, theirs in zip(run_once(step, *given), step(*given), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-14)


def test_an_error_of_the_program_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        run_once(lambda x: x / (1 // 0), jnp.zeros(3))


def test_what_the_user_told_xla_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    before = jax.config.read("jax_disable_most_optimizations")
    try:
        jax.config.update("jax_disable_most_optimizations", False)
        monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
        assert not compiling._is_configured()
        monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
        assert compiling._is_configured()
        monkeypatch.setenv("XLA_FLAGS", "")
        jax.config.update("jax_disable_most_optimizations", True)
        assert compiling._is_configured()
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.sweep
def test_a_proof_judges_alike_with_little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_is_configured", lambda: False)
    monkeypatch.setattr(compiling, "effort_for", lambda work: LITTLE)
    module = Keeping()
    translation = port.translate(module, X, check=False, static=True)
    assert prove(module, translation, (X,), {}).status is Status.AGREE
    wrong = replace(translation, source=translation.source.replace("nnx.relu(", "nnx.relu6(1.0000001 * "))
    assert wrong.source != translation.source
    assert prove(module, wrong, (X,), {}).status is Status.DIFFER
