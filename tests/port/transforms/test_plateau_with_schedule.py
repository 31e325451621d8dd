"""ReduceLROnPlateau and a schedule that multiplies, on one rate: metric by metric beside torch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch.optim import lr_scheduler as L

from port.errors import UsageError
from port.transforms import exponential_lr, polynomial_lr, scheduled_plateau, torch_plateau_step

METRICS = [3.0, 2.0, *[2.0] * 10, 1.5, *[1.5] * 20]
OPTIONS: dict[str, Any] = {"factor": 0.4, "patience": 2, "min_lr": 0.09, "eps": 0.02}
"""A floor and a least step that are met, at the rate there is: neither a scale's nor the first one's."""


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def torchs(make: Any, plateau_first: bool, **options: Any) -> np.ndarray:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.5)
    optimizer._opt_called = True  # type: ignore[attr-defined]
    schedule, plateau = make(optimizer), L.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in METRICS:
        rates.append(optimizer.param_groups[0]["lr"])
        if plateau_first:
            plateau.step(metric)
        schedule.step()
        if not plateau_first:
            plateau.step(metric)
    return np.array(rates)


def ours(schedule: Any, plateau_first: bool, **options: Any) -> np.ndarray:
    transformation = scheduled_plateau(optax.sgd, 0.5, schedule, plateau_first=plateau_first, **options)
    gradient = jnp.array([1.0, -2.0])

    def step(state: Any, metric: Any) -> Any:
        updates, state = transformation.update(gradient, state, value=metric)
        return state, -updates[0]

    return np.asarray(jax.lax.scan(step, transformation.init(gradient), jnp.array(METRICS))[1])


@pytest.mark.parametrize("plateau_first", [False, True])
def test_the_rate_is_torchs_in_either_order(plateau_first: bool) -> None:
    wanted = torchs(lambda o: L.ExponentialLR(o, 0.96), plateau_first, **OPTIONS)
    got, other = (
        ours(exponential_lr(1.0, gamma=0.96), first, **OPTIONS) for first in (plateau_first, not plateau_first)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert np.abs(other / wanted - 1).max() > 1e-3, "the planted fault: the other order"
    other = ours(exponential_lr(1.0, gamma=0.96), plateau_first, **{**OPTIONS, "eps": 0.07})
    assert np.abs(other / wanted - 1).max() > 1e-3, "the planted fault: another least step"


def test_a_schedule_that_comes_to_nothing() -> None:
    options: dict[str, Any] = {"factor": 0.4, "patience": 2}
    wanted = torchs(lambda o: L.PolynomialLR(o, 14, 1.5), False, **options)
    np.testing.assert_allclose(
        ours(polynomial_lr(1.0, total_iters=14, power=1.5), False, **options), wanted, rtol=1e-12
    )
    assert (wanted[14:] == 0).all()


def test_a_metric_that_is_measured_behind_the_step() -> None:
    transformation = scheduled_plateau(optax.sgd, 0.5, exponential_lr(1.0, gamma=0.96), **OPTIONS)
    gradient = jnp.array([1.0, -2.0])
    state = transformation.init(gradient)
    rates = []
    for metric in METRICS:
        rates.append(float(state.plateau.learning_rate))
        _, state = transformation.update(gradient, state)
        state = state._replace(plateau=torch_plateau_step(state.plateau, metric, **OPTIONS))
    np.testing.assert_allclose(rates, torchs(lambda o: L.ExponentialLR(o, 0.96), False, **OPTIONS), rtol=1e-12)


def test_what_the_optimizer_itself_takes_is_handed_on() -> None:
    def seen(learning_rate: jax.Array) -> optax.GradientTransformationExtraArgs:
        def update(updates: Any, state: Any, params: Any = None, *, extra: Any, **rest: Any) -> Any:
            return jax.tree.map(lambda u: u * extra, updates), state

        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)

    transformation = scheduled_plateau(seen, 0.5, exponential_lr(1.0, gamma=0.9))
    updates, _ = transformation.update(jnp.ones(2), transformation.init(jnp.ones(2)), extra=3.0, value=1.0)
    np.testing.assert_array_equal(updates, [3.0, 3.0])


def test_an_option_that_torch_refuses() -> None:
    with pytest.raises(UsageError, match="below 1"):
        scheduled_plateau(optax.sgd, 0.5, exponential_lr(1.0, gamma=0.9), factor=1.5)
