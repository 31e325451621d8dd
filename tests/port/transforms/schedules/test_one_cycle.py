"""OneCycleLR beside torch's: rate and momentum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from torch.optim.lr_scheduler import OneCycleLR

from port import transforms
from port.errors import UnknownChoice, UsageError

CASES: list[dict[str, Any]] = [
    {"total_steps": 40},
    {"total_steps": 37, "anneal_strategy": "linear", "pct_start": 0.43},
    {"total_steps": 41, "three_phase": True},
    {"total_steps": 30, "three_phase": True, "anneal_strategy": "linear", "pct_start": 0.25},
    {"total_steps": 11, "pct_start": 0.0},
    {"total_steps": 23, "pct_start": 0.13},
    {"total_steps": 20, "pct_start": 0.5, "three_phase": True},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.thin(2)
def test_rate_and_momentum(options: Any, torch_rates: Any, rates: Any, off: Any) -> None:
    def make(optimizer: Any) -> Any:
        ends = {"base_momentum": 0.7, "max_momentum": 0.9, "div_factor": 10.0, "final_div_factor": 50.0}
        return OneCycleLR(optimizer, 0.5, **ends, **options)

    steps = options["total_steps"] + 1  # torch takes one more than it says
    want, momenta = torch_rates(make, steps), torch_rates(make, steps, key="momentum")
    got = rates(transforms.one_cycle_lr(0.5, div_factor=10.0, final_div_factor=50.0, **options), steps)
    assert got.dtype == np.float64
    assert off(got, want) < 1e-12
    assert (
        off(rates(transforms.one_cycle_momentum(base_momentum=0.7, max_momentum=0.9, **options), steps), momenta)
        < 1e-12
    )
    # The planted fault: the whole a step longer, with the way up ending where it would then end.
    longer = {**options, "total_steps": options["total_steps"] + 1}
    assert (
        off(rates(transforms.one_cycle_lr(0.5, div_factor=10.0, final_div_factor=50.0, **longer), steps), want) > 1e-3
    )


@pytest.mark.parametrize(("steps", "least"), [(100, 0.029), (20, 0.14)])
def test_optax_ends_its_phases_a_step_later(steps: int, least: float, rates: Any, off: Any) -> None:
    theirs = optax.cosine_onecycle_schedule(steps, 1.0, 0.3, 25.0, 1e4)
    assert off(rates(theirs, steps), rates(transforms.one_cycle_lr(1.0, steps), steps)) > least


def test_a_step_too_many_is_refused() -> None:
    schedule = transforms.one_cycle_lr(0.5, 8)
    assert np.isfinite(schedule(8))
    with pytest.raises(UsageError, match="OneCycleLR has 8 steps; step 9 is beyond"):
        schedule(9)
    compiled = jax.jit(schedule)
    assert np.isfinite(compiled(jnp.int32(8)))
    with pytest.raises(Exception, match="OneCycleLR has 8 steps; step 9 is beyond"):
        jax.block_until_ready(compiled(jnp.int32(9)))


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UnknownChoice, match="anneal_strategy 'cosine'; there are: cos, linear"):
        transforms.one_cycle_lr(0.1, 10, anneal_strategy="cosine")
    with pytest.raises(UsageError, match="total_steps must be at least 1, got 0"):
        transforms.one_cycle_momentum(0)
