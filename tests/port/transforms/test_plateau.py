"""ReduceLROnPlateau beside torch's, metric by metric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UnknownChoice, UsageError
from port.transforms import TorchPlateauState, reduce_on_torch_plateau, torch_plateau_step

CASES: list[dict[str, Any]] = [
    {"patience": 2},
    {"mode": "max", "factor": 0.7, "patience": 0},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 1, "cooldown": 3},
    {"threshold_mode": "abs", "threshold": 0.3, "patience": 1, "factor": 0.5, "min_lr": 0.02},
    {"factor": 0.5, "patience": 0, "eps": 0.01, "cooldown": 1},
    {"threshold": 0.0, "patience": 3, "cooldown": 2, "factor": 0.9},
]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def metrics_of(steps: int) -> np.ndarray:
    """Falling, then flat, then falling again, with noise, a repeated value and a NaN."""
    generator = np.random.default_rng(3)
    falling = np.concatenate([np.linspace(2.0, 1.0, steps // 2), np.linspace(1.0, 0.6, steps - steps // 2)])
    metrics = falling + generator.normal(0, 0.1, steps)
    metrics[5], metrics[9] = metrics[4], np.nan
    return metrics


def torch_run(metrics: np.ndarray, gradients: np.ndarray, options: Any) -> tuple[np.ndarray, list[tuple[float, ...]]]:
    weight = torch.nn.Parameter(torch.ones(3, 5, dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=0.3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    weights, states = [], []
    for metric, gradient in zip(metrics, gradients, strict=True):
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        scheduler.step(metric)
        weights.append(weight.detach().numpy().copy())
        rate = optimizer.param_groups[0]["lr"]
        states.append((rate, scheduler.best, scheduler.num_bad_epochs, scheduler.cooldown_counter))
    return np.array(weights), states


def jax_run(metrics: np.ndarray, gradients: np.ndarray, options: Any) -> tuple[np.ndarray, list[tuple[float, ...]]]:
    transformation = reduce_on_torch_plateau(lambda rate: optax.sgd(rate, momentum=0.9), 0.3, **options)
    params = {"w": jnp.ones((3, 5))}

    def step(carry: Any, given: Any) -> Any:
        params, state = carry
        updates, state = transformation.update({"w": given[1]}, state, params, value=given[0])
        params = optax.apply_updates(params, updates)
        return (params, state), (params["w"], state[:4])

    start = (params, transformation.init(params))
    _, (weights, states) = jax.jit(lambda given: jax.lax.scan(step, start, given))((metrics, gradients))
    return np.asarray(weights), list(zip(*(np.asarray(field).tolist() for field in states), strict=True))


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.thin(3)
def test_weights_and_state_after_every_metric(options: Any) -> None:
    metrics, gradients = metrics_of(60), np.random.default_rng(1).normal(size=(60, 3, 5))
    weights, states = torch_run(metrics, gradients, options)
    assert len({state[0] for state in states}) > 1, "the rate never fell: nothing is tested"
    got_weights, got_states = jax_run(metrics, gradients, options)
    assert np.abs(got_weights - weights).max() < 1e-12
    np.testing.assert_allclose(got_states, states, rtol=1e-14)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"patience": 2}, {"patience": 3}),
        ({"patience": 1, "cooldown": 3}, {"cooldown": 2}),
        ({"mode": "max", "patience": 0}, {"mode": "min"}),
        ({"threshold": 0.1, "patience": 1}, {"threshold_mode": "abs"}),
    ],
    ids=str,
)
def test_the_comparison_sees_a_fault(options: Any, fault: Any) -> None:
    metrics, gradients = metrics_of(60), np.zeros((60, 3, 5))
    _, states = torch_run(metrics, gradients, options)
    _, got = jax_run(metrics, gradients, {**options, **fault})
    assert [state[0] for state in got] != pytest.approx([state[0] for state in states], rel=1e-6)


def test_optax_s_own_counts_the_cooldown_as_bad() -> None:
    """And it has no rate, but a scale of the update, which it applies after the metric rather than before."""
    metrics = np.concatenate([np.linspace(2, 1, 10), np.full(30, 1.0)])
    own = optax.contrib.reduce_on_plateau(factor=0.5, patience=2, cooldown=3, rtol=1e-4, min_scale=1e-9)

    def step(state: Any, metric: Any) -> Any:
        _, state = own.update({"w": jnp.ones(2)}, state, value=metric)
        return state, state.scale

    _, scales = jax.jit(lambda given: jax.lax.scan(step, own.init({"w": jnp.ones(2)}), given))(metrics)
    _, states = torch_run(metrics, np.zeros((40, 3, 5)), {"factor": 0.5, "patience": 2, "cooldown": 3})
    assert not np.allclose(np.array([state[0] for state in states]) / 0.3, scales, rtol=1e-3)


def test_without_a_metric_the_scheduler_stands_still() -> None:
    transformation = reduce_on_torch_plateau(optax.sgd, 0.5, patience=0)
    params = {"w": jnp.ones(2)}
    state = transformation.init(params)
    updates, after = transformation.update(params, state, params)
    assert after[:4] == state[:4]
    np.testing.assert_array_equal(updates["w"], [-0.5, -0.5])
    # The present update has the rate from before its metric.
    updates, after = transformation.update(params, state._replace(best=jnp.asarray(0.0)), params, value=1.0)
    np.testing.assert_array_equal(updates["w"], [-0.5, -0.5])
    assert float(after.learning_rate) == 0.05
    by_itself = torch_plateau_step(state._replace(best=jnp.asarray(0.0)), 1.0, patience=0)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), by_itself, after))


def test_from_a_state_in_the_middle() -> None:
    metrics, gradients = metrics_of(60), np.zeros((60, 3, 5))
    options = CASES[2]
    _, states = torch_run(metrics, gradients, options)
    rate, best, bad, cooldown = states[29]
    state = TorchPlateauState(*map(jnp.asarray, (rate, best, bad, cooldown)), inner_state=optax.EmptyState())
    for metric, want in zip(metrics[30:], states[30:], strict=True):
        state = torch_plateau_step(state, metric, **options)
        np.testing.assert_allclose([float(field) for field in state[:4]], want, rtol=1e-14)


def test_types_stay_in_float32() -> None:
    with jax.enable_x64(False):
        state = reduce_on_torch_plateau(optax.sgd, 0.5).init({"w": jnp.ones(2, jnp.bfloat16)})
        after = torch_plateau_step(state, 1.0)
        types = [field.dtype for field in after[:4]]
    assert types == [field.dtype for field in state[:4]] == [jnp.float32, jnp.float32, jnp.int32, jnp.int32]


def test_an_optimizer_that_wants_the_metric_itself() -> None:
    def wanting(rate: Any) -> Any:
        def update(updates: Any, state: Any, params: Any = None, *, value: Any, **extra: Any) -> Any:
            return jax.tree.map(lambda update: -rate * value * update, updates), state

        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)

    transformation = reduce_on_torch_plateau(wanting, 0.5)
    params = jnp.ones(2)
    updates, _ = transformation.update(params, transformation.init(params), params, value=3.0)
    np.testing.assert_array_equal(updates, [-1.5, -1.5])


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UnknownChoice, match="mode of a plateau 'low'; there are: "):
        reduce_on_torch_plateau(optax.sgd, 0.1, mode="low")
    with pytest.raises(UnknownChoice, match="threshold_mode of a plateau 'relative'; there are: rel, abs"):
        reduce_on_torch_plateau(optax.sgd, 0.1, threshold_mode="relative")
    with pytest.raises(UsageError, match=r"must be below 1, got 1\.5"):
        reduce_on_torch_plateau(optax.sgd, 0.1, factor=1.5)
