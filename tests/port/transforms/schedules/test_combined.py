"""Schedules of schedules beside torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest
from torch.optim import lr_scheduler as L

from port import transforms
from port.errors import UsageError


def warmed_up(optimizer: Any) -> Any:
    held = [
        L.LinearLR(optimizer, 0.1, 1.0, 5),
        L.CosineAnnealingLR(optimizer, 9, 1e-3),
        L.ConstantLR(optimizer, 0.5, 4),
    ]
    return L.SequentialLR(optimizer, held, [5, 16])


def warmed_up_schedules() -> list[Any]:
    return [
        transforms.linear_lr(0.3, 0.1, 1.0, 5),
        transforms.cosine_annealing_lr(0.3, 9, 1e-3),
        transforms.constant_lr(0.3, 0.5, 4),
    ]


def test_one_after_another(torch_rates: Any, rates: Any, off: Any) -> None:
    want = torch_rates(warmed_up, 40)
    got = rates(transforms.sequential_lr(warmed_up_schedules(), [5, 16]), 40)
    assert off(got, want) < 1e-14
    assert off(rates(optax.join_schedules(warmed_up_schedules(), [5, 16]), 40), want) < 1e-14
    # The planted fault: a milestone off by one.
    assert off(rates(transforms.sequential_lr(warmed_up_schedules(), [5, 17]), 40), want) > 1e-3


@pytest.mark.parametrize("milestones", [[0], [6], [6, 6], [0, 0]])
def test_stretches_without_a_step(milestones: list[int], torch_rates: Any, rates: Any, off: Any) -> None:
    gammas = [0.9, 0.8, 0.7][: len(milestones) + 1]

    def make(optimizer: Any) -> Any:
        return L.SequentialLR(optimizer, [L.ExponentialLR(optimizer, gamma) for gamma in gammas], milestones)

    schedules = [transforms.exponential_lr(0.3, gamma) for gamma in gammas]
    assert off(rates(transforms.sequential_lr(schedules, milestones), 20), torch_rates(make, 20)) < 1e-14


def test_a_schedule_is_not_asked_beyond_its_stretch(rates: Any) -> None:
    """What ends at its milestone does not refuse the steps behind it, nor what begins there those before."""
    schedules = [transforms.tabulated([1.0, 2.0]), transforms.one_cycle_lr(0.5, 4), transforms.tabulated([5.0])]
    got = rates(transforms.sequential_lr(schedules, [2, 6]), 7)
    np.testing.assert_array_equal(got[[0, 1, 6]], [1.0, 2.0, 5.0])
    with pytest.raises(UsageError, match="step 1 is beyond"):
        transforms.sequential_lr(schedules, [2, 6])(7)


def test_a_product(torch_rates: Any, rates: Any, off: Any) -> None:
    def make(optimizer: Any) -> Any:
        held = [L.ConstantLR(optimizer, 0.1, 4), L.ExponentialLR(optimizer, 0.9), L.StepLR(optimizer, 7, 0.3)]
        return L.ChainedScheduler(held)

    schedules = [
        transforms.constant_lr(0.3, 0.1, 4),
        transforms.exponential_lr(1.0, 0.9),
        transforms.step_lr(1.0, 7, 0.3),
    ]
    assert off(rates(transforms.chained_lr(schedules), 40), torch_rates(make, 40)) < 1e-14
    assert off(rates(transforms.chained_lr(schedules[:2]), 40), torch_rates(make, 40)) > 1e-3


def test_stepped_once_an_epoch(torch_rates: Any, rates: Any, off: Any) -> None:
    epochs = torch_rates(lambda optimizer: L.ExponentialLR(optimizer, 0.8), 5)
    got = rates(transforms.per_epoch(transforms.exponential_lr(0.3, 0.8), 7), 35)
    assert off(got, np.repeat(epochs, 7)) < 1e-14
    # The planted fault: the epoch's step before its last update instead of behind it.
    early = rates(lambda count: transforms.exponential_lr(0.3, 0.8)((count + 1) // 7), 35)
    assert off(early, np.repeat(epochs, 7)) > 1e-2
    with pytest.raises(UsageError, match="step 2 is beyond"):
        transforms.per_epoch(transforms.tabulated([1.0, 2.0]), 7)(14)


def test_what_cannot_be_meant() -> None:
    one = transforms.exponential_lr(0.3, 0.8)
    with pytest.raises(UsageError, match="2 schedules take 1 rising milestones, got \\[\\]"):
        transforms.sequential_lr([one, one], [])
    with pytest.raises(UsageError, match="got \\[9, 3\\]"):
        transforms.sequential_lr([one, one, one], [9, 3])
    with pytest.raises(UsageError, match="at least one schedule"):
        transforms.chained_lr([])
    with pytest.raises(UsageError, match="steps_per_epoch must be at least 1, got 0"):
        transforms.per_epoch(one, 0)
