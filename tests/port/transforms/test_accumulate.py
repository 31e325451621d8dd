"""Gradient accumulation: torch's loop of several backward calls and one step, beside ours (O18)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.transforms import TorchAccumulationState, accumulate_torch

SHAPES: dict[str, tuple[int, ...]] = {"matrix": (3, 5), "scalar": (), "vector": (4,)}  # as jax sorts them
random = np.random.default_rng(0)
START = {name: random.normal(size=shape) for name, shape in SHAPES.items()}
GRADIENTS = [{name: random.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(60)]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def schedule(count: jax.Array) -> jax.Array:
    return 0.1 * 0.9 ** count.astype(jnp.float64)


def torch_steps(every: int, mean: bool, dtype: torch.dtype = torch.float64) -> Iterator[tuple[list[Any], list[Any]]]:
    """Parameters and exp_avg after each micro-batch; the loss of a micro-batch is gradient · parameters."""
    params = [torch.tensor(value, dtype=dtype, requires_grad=True) for value in START.values()]
    optimizer = torch.optim.Adam(params, lr=0.1, foreach=False)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for i, gradients in enumerate(GRADIENTS):
        loss = sum(
            (torch.tensor(gradient, dtype=dtype) * param).sum()
            for gradient, param in zip(gradients.values(), params, strict=True)
        )
        (loss / every if mean else loss).backward()  # type: ignore[union-attr]
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        moments = [optimizer.state[param].get("exp_avg", torch.zeros_like(param)).clone() for param in params]
        yield [param.detach().clone() for param in params], moments


def jax_steps(
    transform: optax.GradientTransformation, dtype: str = "float64", restart: int | None = None
) -> Iterator[tuple[Any, Any]]:
    """Parameters and state after each micro-batch; at a restart both pass through numpy."""
    params = jax.tree.map(lambda value: jnp.asarray(value, dtype), START)
    state = transform.init(params)

    @jax.jit
    def step(params: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
        updates, state = transform.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for i, gradients in enumerate(GRADIENTS):
        if i == restart:
            params, state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), (params, state))
        params, state = step(params, state, jax.tree.map(lambda value: jnp.asarray(value, dtype), gradients))
        yield params, state


def distance(ours: Any, theirs: torch.Tensor) -> float:
    his = theirs.double().numpy()
    return float(np.linalg.norm(np.asarray(ours, "float64") - his) / max(1e-3, np.linalg.norm(his)))


def largest_difference(
    transform: Any, every: int, mean: bool, dtype: str = "float64", restart: int | None = None
) -> float:
    off = 0.0
    theirs = torch_steps(every, mean, getattr(torch, dtype))
    for (params, state), (expected, moments) in zip(jax_steps(transform, dtype, restart), theirs, strict=True):
        inner = state.inner_state if isinstance(state, TorchAccumulationState) else state.inner_opt_state
        for ours, his in zip([*params.values(), *inner[0].mu.values()], expected + moments, strict=True):
            off = max(off, distance(ours, his))
    return off


@pytest.mark.parametrize(("every", "mean"), [(1, False), (4, False), (4, True), (7, True)])
@pytest.mark.thin(2)
def test_after_every_micro_batch(every: int, mean: bool) -> None:
    transform = accumulate_torch(optax.adam(schedule), every, mean=mean)
    assert largest_difference(transform, every, mean, restart=30) < 1e-12


def test_summing_where_torch_averages_is_seen() -> None:
    # Adam is all but blind to it, its moments are not.
    assert largest_difference(accumulate_torch(optax.adam(schedule), 4), 4, True) > 0.1


def test_a_step_too_late_is_seen() -> None:
    assert largest_difference(accumulate_torch(optax.adam(schedule), 5, mean=True), 4, True) > 0.1


def test_optaxs_own_is_exact_in_float32_only() -> None:
    # Its accumulator is float32 unless told otherwise.
    multi_steps = optax.MultiSteps(optax.adam(schedule), 4, use_grad_mean=False)
    assert 1e-9 < largest_difference(multi_steps, 4, False) < 1e-5
    assert largest_difference(optax.MultiSteps(optax.adam(schedule), 4), 4, False) > 0.1  # averages


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gradients_add_up_in_their_own_dtype(dtype: str) -> None:
    """torch's .grad, number by number."""
    params = {"w": jnp.zeros((3, 5), dtype)}
    transform = accumulate_torch(optax.sgd(1.0), 60)
    state = transform.init(params)
    update = jax.jit(transform.update)
    weight = torch.zeros(3, 5, dtype=getattr(torch, dtype), requires_grad=True)
    for gradients in GRADIENTS[:59]:
        updates, state = update({"w": jnp.asarray(gradients["matrix"], dtype)}, state, params)
        (torch.tensor(gradients["matrix"], dtype=weight.dtype) * weight).sum().backward()
        assert updates["w"].dtype == state.gradients["w"].dtype == dtype
        assert not np.asarray(updates["w"], "float32").any()
    assert weight.grad is not None
    np.testing.assert_array_equal(np.asarray(state.gradients["w"], "float64"), weight.grad.double())


def test_one_infinite_gradient_is_over_after_its_step() -> None:
    """optax's accumulator is NaN from then on."""
    ours, optaxs = accumulate_torch(optax.sgd(1.0), 2), optax.MultiSteps(optax.sgd(1.0), 2, use_grad_mean=False)
    for transform, last in ((ours, -2.0), (optaxs, np.nan)):
        params = {"w": jnp.zeros(3)}
        state = transform.init(params)
        for gradient in (jnp.inf, 1.0, 1.0, 1.0):
            updates, state = transform.update({"w": jnp.full(3, gradient)}, state, params)
        np.testing.assert_array_equal(updates["w"], last)


def test_masked_leaves_in_a_scan_with_what_else_is_given() -> None:
    """State and updates keep their types; ``value`` reaches the optimizer in its own step."""

    def init(params: Any) -> jax.Array:
        return jnp.zeros([])

    def add(updates: Any, state: Any, params: Any = None, *, value: Any, **_: Any) -> Any:
        return jax.tree.map(lambda update: update + value, updates), state + value

    transform = accumulate_torch(optax.GradientTransformationExtraArgs(init, add), 2)
    params = {"frozen": optax.MaskedNode(), "free": jnp.zeros(2)}

    def step(state: Any, value: jax.Array) -> tuple[Any, Any]:
        updates, state = transform.update(
            {"frozen": optax.MaskedNode(), "free": jnp.ones(2)}, state, params, value=value
        )
        return state, updates

    state, updates = jax.jit(lambda state, values: jax.lax.scan(step, state, values))(
        transform.init(params), jnp.arange(4.0)
    )
    np.testing.assert_array_equal(updates["free"], [[0, 0], [3, 3], [0, 0], [5, 5]])
    assert updates["frozen"] == optax.MaskedNode()
    assert float(state.inner_state) == 4
    assert state.micro_step.dtype == "int32"
    assert int(state.micro_step) == 0


def test_less_than_one_is_refused() -> None:
    with pytest.raises(UsageError, match="every must be at least 1"):
        accumulate_torch(optax.sgd(1.0), 0)
