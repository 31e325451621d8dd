"""AMSGrad against torch.optim.Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import optax
import pytest
import torch

from port.transforms.amsgrad import scale_by_torch_amsgrad

FIELDS = {"step": "count", "exp_avg": "mu", "exp_avg_sq": "nu", "max_exp_avg_sq": "nu_max"}
OPTIONS = [
    {},
    {"b1": 0.7, "b2": 0.9, "eps": 1e-2},
    {"b1": 0.0, "b2": 0.99},
]


@cache  # compiled once
def ours(**options: Any) -> optax.GradientTransformation:
    return optax.chain(scale_by_torch_amsgrad(**options), optax.scale_by_learning_rate(0.05))


def torchs(b1: float = 0.9, b2: float = 0.999, **options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adam(
        parameters, lr=0.05, betas=(b1, b2), amsgrad=True, foreach=False, **options
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thin(3)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(**options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_adamw_with_weight_decay(beside_torch: Any, float64: None) -> None:
    transformation = optax.chain(
        scale_by_torch_amsgrad(), optax.add_decayed_weights(0.1), optax.scale_by_learning_rate(0.05)
    )
    differences = beside_torch(
        lambda parameters: torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1, amsgrad=True, foreach=False),
        transformation,
        FIELDS,
    )
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(), ours(), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_a_count_off_by_one_is_seen(beside_torch: Any, float64: None) -> None:
    def start(state: Any) -> Any:
        return (state[0]._replace(count=state[0].count + 1), *state[1:])

    assert beside_torch(torchs(), ours(), FIELDS, steps=10, prepare=start)["parameter kernel"] > 1e-2


def test_optax_takes_the_maximum_of_the_corrected_moment(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), optax.amsgrad(0.05), FIELDS)
    assert differences["parameter matrix"] > 1e-2
    assert differences["max_exp_avg_sq matrix"] > 1
    assert differences["exp_avg_sq matrix"] <= 1e-12
