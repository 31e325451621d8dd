"""ASGD against torch.optim.ASGD."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax.numpy as jnp
import optax
import pytest
import torch

from port.errors import UsageError
from port.transforms.asgd import torch_asgd

FIELDS = {"step": "count", "eta": "eta", "mu": "mu", "ax": "ax"}
OPTIONS = [
    {},
    {"lambd": 0.3, "alpha": 0.5, "t0": 20},
    {"lambd": 0.0, "t0": 0.5},
]

ours = cache(torch_asgd)  # compiled once


def torchs(lr: float = 0.05, **options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.ASGD(parameters, lr=lr, foreach=False, **options)


def falling(step: Any) -> Any:
    return 0.1 / (1 + 0.2 * step)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(0.05, **options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_with_a_schedule_and_weight_decay(beside_torch: Any, float64: None) -> None:
    transformation = optax.chain(optax.add_decayed_weights(0.1), ours(falling, **OPTIONS[1]))
    differences = beside_torch(torchs(weight_decay=0.1, **OPTIONS[1]), transformation, FIELDS, rates=falling)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    transformation = ours(falling, **OPTIONS[1])
    differences = beside_torch(torchs(**OPTIONS[1]), transformation, FIELDS, rates=falling, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(t0=5), ours(0.05, t0=5), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_float64_scalars(beside_torch: Any, float64: None) -> None:
    """What torch keeps where its default dtype is float64; with float32 scalars the difference is seen."""

    def double(state: Any) -> Any:
        return state._replace(eta=jnp.asarray(0.05), mu=jnp.ones(()))

    run = partial(beside_torch, torchs(t0=20), ours(0.05, t0=20), FIELDS, scalars=torch.float64)
    differences = run(prepare=double)
    assert max(differences.values()) <= 1e-12, differences
    assert run()["ax matrix"] > 1e-10


def test_a_rate_that_acts_at_once_is_seen(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(lambda count: falling(count + 1)), FIELDS, rates=falling, steps=10)
    assert differences["parameter matrix"] > 1e-3


def test_an_average_that_begins_one_step_late_is_seen(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(t0=20), ours(0.05, t0=21), FIELDS)
    assert differences["ax matrix"] > 1e-3
    assert differences["parameter matrix"] <= 1e-12


def test_it_asks_for_the_parameters() -> None:
    transformation = ours()
    with pytest.raises(UsageError, match="torch_asgd reads the parameters"):
        transformation.update(jnp.ones(2), transformation.init(jnp.ones(2)))
