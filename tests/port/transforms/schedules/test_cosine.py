"""Cosine schedules beside torch's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest
from torch.optim.lr_scheduler import CosineAnnealingLR, CosineAnnealingWarmRestarts

from port import transforms


@pytest.mark.parametrize(("T_max", "eta_min"), [(7, 0.01), (1, 0.0), (2, 0.4), (50, 0.0), (3.5, 0.001)])
def test_annealing_far_past_its_end(T_max: Any, eta_min: float, torch_rates: Any, rates: Any, off: Any) -> None:
    want = torch_rates(lambda optimizer: CosineAnnealingLR(optimizer, T_max, eta_min), 160)
    got = rates(transforms.cosine_annealing_lr(0.3, T_max, eta_min), 160)
    assert got.dtype == np.float64
    assert off(got, want) < 1e-12
    # The planted fault: staying down, as optax does.
    down = rates(optax.cosine_decay_schedule(0.3, T_max, eta_min / 0.3), 160)
    assert off(down[: int(T_max) + 1], want[: int(T_max) + 1]) < 1e-12
    assert off(down, want) > 0.1


def test_a_long_descent_and_its_rise(torch_rates: Any, rates: Any, off: Any) -> None:
    """torch goes through ratios of numbers near 0; they leave it where the formula is."""
    want = torch_rates(lambda optimizer: CosineAnnealingLR(optimizer, 2000), 4001)
    assert off(rates(transforms.cosine_annealing_lr(0.3, 2000), 4001), want) < 1e-13


@pytest.mark.parametrize(
    ("T_0", "T_mult", "eta_min"), [(4, 1, 0.0), (1, 1, 0.1), (3, 2, 0.001), (1, 3, 0.0), (5, 4, 0.2)]
)
def test_warm_restarts(T_0: int, T_mult: int, eta_min: float, torch_rates: Any, rates: Any, off: Any) -> None:
    want = torch_rates(lambda optimizer: CosineAnnealingWarmRestarts(optimizer, T_0, T_mult, eta_min), 130)
    got = rates(transforms.cosine_annealing_warm_restarts(0.3, T_0, T_mult, eta_min), 130)
    assert got.dtype == np.float64
    assert off(got, want) < 1e-14
    assert T_0 == 1 or off(got[:-1], want[1:]) > 1e-3


def test_optax_s_restarts_are_as_many_as_it_is_given(rates: Any, off: Any) -> None:
    cycle = {"init_value": 0.3, "peak_value": 0.3, "decay_steps": 10, "warmup_steps": 0}
    ours, theirs = transforms.cosine_annealing_warm_restarts(0.3, 10), optax.sgdr_schedule([cycle] * 2)
    assert off(rates(theirs, 20), rates(ours, 20)) < 1e-15
    assert off(rates(theirs, 25), rates(ours, 25)) > 0.5


def test_the_largest_counts(rates: Any) -> None:
    """The last start that an int32 can hold, and what lies behind it; float32 keeps its place in a late cycle."""
    schedule = transforms.cosine_annealing_warm_restarts(1.0, 1, 2)
    last = 2**30 - 1
    assert float(schedule(last)) == 1.0
    assert float(schedule(last - 1)) == pytest.approx(0.0, abs=1e-15)
    assert float(schedule(2**31 - 1)) == pytest.approx(1.0, abs=1e-15)
    assert float(schedule(2**31 - 2)) == pytest.approx(0.0, abs=1e-15)
    assert float(schedule(last + 2**28)) == pytest.approx((1 + np.sqrt(0.5)) / 2, abs=1e-9)
    with jax.enable_x64(False):
        late = transforms.cosine_annealing_lr(1.0, 1000)(20_000_250)
        assert late.dtype == np.float32
        assert float(late) == pytest.approx((1 + np.sqrt(0.5)) / 2, abs=1e-6)
