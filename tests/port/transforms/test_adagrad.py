"""Adagrad against torch.optim.Adagrad."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import optax
import pytest
import torch

from port.transforms.adagrad import scale_by_torch_adagrad

FIELDS = {"step": "count", "sum": "sum"}
OPTIONS = [
    {},
    {"lr_decay": 0.1, "initial_accumulator_value": 0.4, "eps": 1e-2},
]


@cache  # compiled once
def ours(**options: Any) -> optax.GradientTransformation:
    return optax.chain(scale_by_torch_adagrad(**options), optax.scale_by_learning_rate(0.3))


def torchs(**options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adagrad(parameters, lr=0.3, foreach=False, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(**options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(**OPTIONS[1]), ours(**OPTIONS[1]), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(**OPTIONS[1]), ours(**OPTIONS[1]), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_a_count_off_by_one_is_seen(beside_torch: Any, float64: None) -> None:
    def start(state: Any) -> Any:
        return (state[0]._replace(count=state[0].count + 1), *state[1:])

    differences = beside_torch(torchs(lr_decay=0.1), ours(lr_decay=0.1), FIELDS, steps=10, prepare=start)
    assert differences["parameter kernel"] > 1e-2
    assert differences["sum kernel"] <= 1e-12


def test_optax_differs(beside_torch: Any, float64: None) -> None:
    assert beside_torch(torchs(), optax.adagrad(0.3), {"step": None, "sum": None})["parameter matrix"] > 1e-2
    same_numbers = optax.adagrad(0.3, initial_accumulator_value=0.0, eps=1e-3)
    differences = beside_torch(torchs(eps=1e-3), same_numbers, {"step": None, "sum": "sum_of_squares"})
    assert differences["parameter matrix"] > 1e-4
    assert differences["sum matrix"] <= 1e-12
