"""CyclicLR beside torch's: rate and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch.optim.lr_scheduler import CyclicLR

from port import transforms
from port.errors import UnknownChoice

CASES: list[dict[str, Any]] = [
    {"step_size_up": 5, "step_size_down": 3},
    {"step_size_up": 7, "mode": "triangular2"},
    {"step_size_up": 4, "step_size_down": 9, "mode": "exp_range", "gamma": 0.93},
    {"step_size_up": 2.5, "step_size_down": 3.25},
    {"step_size_up": 1, "mode": "triangular2"},
    {"step_size_up": 6, "step_size_down": 0},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_rate_and_momentum(options: Any, torch_rates: Any, rates: Any, off: Any) -> None:
    def make(optimizer: Any) -> Any:
        return CyclicLR(optimizer, 0.01, 0.4, base_momentum=0.7, max_momentum=0.95, **options)

    steps = 6 if options.get("step_size_down") == 0 else 80  # torch divides by zero at the seventh
    got = rates(transforms.cyclic_lr(0.01, 0.4, **options), steps)
    assert got.dtype == np.float64
    assert off(got, torch_rates(make, steps)) < 1e-12
    momenta = rates(transforms.cyclic_momentum(0.7, 0.95, **options), steps)
    assert off(momenta, torch_rates(make, steps, key="momentum")) < 1e-12
    # The planted faults: a step late; the momentum going with the rate rather than against it.
    assert off(got[:-1], torch_rates(make, steps)[1:]) > 1e-3
    assert off(0.7 + 0.95 - momenta, torch_rates(make, steps, key="momentum")) > 1e-3


def test_a_whole_cycle_does_not_drift() -> None:
    schedule = transforms.cyclic_lr(0.01, 0.4, step_size_up=3000, step_size_down=2000)
    assert float(schedule(5000 * 400_000)) == 0.01
    assert float(schedule(5000 * 400_000 + 3000)) == pytest.approx(0.4, rel=1e-15)


def test_an_unknown_mode() -> None:
    with pytest.raises(UnknownChoice, match="'triangle'; there are: triangular,"):
        transforms.cyclic_lr(0.1, 0.2, mode="triangle")
