"""RAdam against torch.optim.RAdam, and the length of its average against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.transforms.radam import moving_average_length, scale_by_torch_radam

FIELDS = {"step": "count", "exp_avg": "mu", "exp_avg_sq": "nu"}
OPTIONS = [
    {},
    {"b1": 0.7, "b2": 0.9, "eps": 1e-2},
    {"b1": 0.0, "b2": 0.6},  # ρ∞ = 4: never tractable
    {"b2": 0.0},
]


@cache  # compiled once
def ours(**options: Any) -> optax.GradientTransformation:
    return optax.chain(scale_by_torch_radam(**options), optax.scale_by_learning_rate(0.05))


def torchs(b1: float = 0.9, b2: float = 0.999, **options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.RAdam(parameters, lr=0.05, betas=(b1, b2), foreach=False, **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thin(4)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(**options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(), FIELDS, restart=4)
    assert max(differences.values()) <= 1e-12, differences


@pytest.mark.parametrize("b2", [0.999, 0.9999])
def test_float32(beside_torch: Any, b2: float) -> None:
    differences = beside_torch(torchs(b2=b2), ours(b2=b2), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_float32_of_the_formula_as_it_stands_is_seen(beside_torch: Any) -> None:
    """optax has it so, and takes the fifth step for tractable."""
    theirs = optax.radam(0.05, b2=0.9999)
    assert beside_torch(torchs(b2=0.9999), theirs, FIELDS, steps=10)["parameter kernel"] > 1e-3


def test_optax_adds_eps_to_the_corrected_root(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(eps=1e-3), optax.radam(0.05, eps=1e-3), FIELDS)
    assert differences["parameter matrix"] > 1e-5
    assert differences["exp_avg_sq matrix"] <= 1e-12


def test_a_count_off_by_one_is_seen(beside_torch: Any, float64: None) -> None:
    def start(state: Any) -> Any:
        return (state[0]._replace(count=state[0].count + 1), *state[1:])

    assert beside_torch(torchs(), ours(), FIELDS, steps=10, prepare=start)["parameter kernel"] > 1e-2


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.99, 0.999, 0.99999])
def test_the_length_of_the_average_has_no_cancellation(decay: float) -> None:
    b = Fraction(decay)
    counts = [1, 2, 3, 5, 6, 10, 60, 300]
    exact = [float(2 / (1 - b) - 1 - 2 * t * b**t / (1 - b**t)) for t in counts]
    got = np.asarray([moving_average_length(decay, jnp.asarray(t)) for t in counts])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, exact, rtol=2e-6)
    power = np.float32(decay) ** np.asarray(counts, np.float32)
    naive = np.float32(2 / (1 - decay) - 1) - 2 * np.asarray(counts) * power / (1 - power)
    if decay >= 0.999:
        assert np.max(np.abs(naive / exact - 1)) > 1e-4


def test_the_length_of_the_average_in_float64(float64: None) -> None:
    b = Fraction(0.999)
    for t in (1, 5, 6, 60, 199, 201, 1000):
        exact = 2 / (1 - b) - 1 - 2 * t * b**t / (1 - b**t)
        assert abs(float(moving_average_length(0.999, jnp.asarray(t))) / float(exact) - 1) < 1e-13, t
