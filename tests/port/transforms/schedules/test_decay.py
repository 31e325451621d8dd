"""Schedules that multiply, beside torch's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest
from torch.optim import lr_scheduler

from port import transforms

STEPS = 40
SAME = {
    "step_lr": [
        ("StepLR", {"step_size": 3, "gamma": 0.7}),
        ("StepLR", {"step_size": 1}),
        ("StepLR", {"step_size": 7, "gamma": 0.0}),
    ],
    "multi_step_lr": [
        ("MultiStepLR", {"milestones": [4, 9, 9, 21], "gamma": 0.4}),
        ("MultiStepLR", {"milestones": [5, 0]}),
        ("MultiStepLR", {"milestones": []}),
    ],
    "constant_lr": [
        ("ConstantLR", {}),
        ("ConstantLR", {"factor": 0.2, "total_iters": 11}),
        ("ConstantLR", {"total_iters": 0}),
    ],
    "linear_lr": [
        ("LinearLR", {}),
        ("LinearLR", {"start_factor": 0.9, "end_factor": 0.0, "total_iters": 13}),
        ("LinearLR", {"start_factor": 0.4, "end_factor": 0.7, "total_iters": 0}),
        ("LinearLR", {"start_factor": 0.4, "end_factor": 0.7, "total_iters": 1}),
    ],
    "exponential_lr": [
        ("ExponentialLR", {"gamma": 0.93}),
        ("ExponentialLR", {"gamma": 1.02}),
        ("ExponentialLR", {"gamma": -0.9}),
    ],
    "polynomial_lr": [
        ("PolynomialLR", {}),
        ("PolynomialLR", {"total_iters": 17, "power": 1.7}),
        ("PolynomialLR", {"total_iters": 9, "power": 0.5}),
        ("PolynomialLR", {"total_iters": 0}),
    ],
}
CASES = [(name, torch_name, options) for name, cases in SAME.items() for torch_name, options in cases]


@pytest.mark.parametrize(("name", "torch_name", "options"), CASES, ids=lambda value: str(value))
def test_every_step_is_torchs(name: str, torch_name: str, options: Any, torch_rates: Any, rates: Any, off: Any) -> None:
    want = torch_rates(lambda optimizer: getattr(lr_scheduler, torch_name)(optimizer, **options), STEPS)
    schedule = getattr(transforms, name)(0.3, **options)
    got = rates(schedule, STEPS)
    assert got.dtype == np.float64
    assert off(got, want) < 1e-14
    # One step late is seen, wherever the rate moves at all.
    assert len(set(want)) == 1 or off(got[:-1], want[1:]) > 1e-3


def test_float32_without_x64(torch_rates: Any, rates: Any, off: Any) -> None:
    """A γ near 1 keeps its digits over many steps, which it would lose by being rounded to float32 first."""
    with jax.enable_x64(False):
        got = rates(transforms.exponential_lr(0.3, gamma=0.9999), 5000)
        naive = np.float32(0.3) * np.float32(0.9999) ** np.arange(5000).astype(np.float32)
    want = 0.3 * 0.9999 ** np.arange(5000)
    assert got.dtype == np.float32
    assert np.abs(got / want - 1).max() < 5e-7 < np.abs(naive / want - 1).max()


def test_optax_s_own_divide_in_float32(rates: Any, off: Any) -> None:
    ours = {
        "step": (transforms.step_lr(0.1, 7, 0.7), optax.exponential_decay(0.1, 7, 0.7, staircase=True)),
        "exponential": (transforms.exponential_lr(0.1, 0.97), optax.exponential_decay(0.1, 1, 0.97)),
        "linear": (transforms.linear_lr(0.1, 0.3, 0.9, 17), optax.linear_schedule(0.03, 0.09, 17)),
        "polynomial": (transforms.polynomial_lr(0.1, 17, 1.7), optax.polynomial_schedule(0.1, 0.0, 1.7, 17)),
    }
    for own, theirs in ours.values():
        assert 1e-9 < off(rates(theirs, 17), rates(own, 17)) < 1e-6


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.sweep
def test_optax_s_polynomial_is_no_number_past_its_end(x64: bool, rates: Any) -> None:
    with jax.enable_x64(x64):
        theirs = [rates(optax.polynomial_schedule(0.1, 0.0, 1.7, total), 2 * total)[total:] for total in range(2, 14)]
        own = [rates(transforms.polynomial_lr(0.1, total, 1.7), 2 * total)[total:] for total in range(2, 14)]
    assert any(np.isnan(rate).any() for rate in theirs)
    assert all((rate == 0).all() for rate in own)


def test_a_concrete_count_of_any_kind() -> None:
    schedule = transforms.step_lr(0.3, 3, 0.5)
    assert float(schedule(7)) == float(schedule(np.int64(7))) == pytest.approx(0.075, rel=1e-15)
