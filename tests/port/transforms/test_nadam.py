"""NAdam against torch.optim.NAdam."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import optax
import pytest
import torch

from port.transforms.nadam import scale_by_torch_nadam

FIELDS = {"step": "count", "mu_product": "mu_product", "exp_avg": "mu", "exp_avg_sq": "nu"}
OPTIONS = [
    {},
    {"b1": 0.7, "b2": 0.9, "eps": 1e-2, "momentum_decay": 0.1},
    {"b1": 0.0, "b2": 0.99, "momentum_decay": 0.0},
]


@cache  # compiled once
def ours(**options: Any) -> optax.GradientTransformation:
    return optax.chain(scale_by_torch_nadam(**options), optax.scale_by_learning_rate(0.05))


def torchs(b1: float = 0.9, b2: float = 0.999, **options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.NAdam(parameters, lr=0.05, betas=(b1, b2), foreach=False, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(**options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_decoupled_weight_decay(beside_torch: Any, float64: None) -> None:
    transformation = optax.chain(
        scale_by_torch_nadam(), optax.add_decayed_weights(0.1), optax.scale_by_learning_rate(0.05)
    )
    differences = beside_torch(torchs(weight_decay=0.1, decoupled_weight_decay=True), transformation, FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(), ours(), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_a_float64_product(beside_torch: Any, float64: None) -> None:
    """What torch keeps where its default dtype is float64; with a float32 product the difference is seen."""

    def double(state: Any) -> Any:
        return (state[0]._replace(mu_product=state[0].mu_product.astype(jnp.float64)), *state[1:])

    differences = beside_torch(torchs(), ours(), FIELDS, scalars=torch.float64, prepare=double)
    assert max(differences.values()) <= 1e-12, differences
    assert beside_torch(torchs(), ours(), FIELDS, scalars=torch.float64)["parameter matrix"] > 1e-10


def test_a_momentum_one_step_behind_is_seen(beside_torch: Any, float64: None) -> None:
    def start(state: Any) -> Any:
        return (state[0]._replace(count=state[0].count - 1), *state[1:])

    differences = beside_torch(torchs(b2=0.0), ours(b2=0.0), FIELDS, prepare=start)
    assert differences["mu_product scalar"] > 1e-3
    assert differences["exp_avg matrix"] <= 1e-12


@pytest.mark.sweep
def test_optax_has_a_constant_momentum(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), optax.nadam(0.05), FIELDS | {"mu_product": None})
    assert differences["parameter matrix"] > 1e-2
    assert differences["exp_avg matrix"] <= 1e-12
