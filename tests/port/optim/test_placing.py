"""Schedulers are brought where a state stands, or refused before any has moved."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as L

from port.errors import PortError
from port.optim.parts import Partition
from port.optim.placing import placement_of
from port.optim.together import together

SCHEDULERS = {
    "sequence": lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 5), L.ExponentialLR(o, 0.9)], [5]),
    "chain": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 4), L.ExponentialLR(o, 0.9)]),
    "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2, 1e-3),
    "one cycle": lambda o: L.OneCycleLR(o, 0.5, 40),
    "lambda": lambda o: L.LambdaLR(o, lambda step: 0.8**step),
    "multiplied": lambda o: L.MultiplicativeLR(o, lambda step: 0.8),
}


def sgd(rate: Any = 0.3) -> torch.optim.Optimizer:
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))]}, {"params": [torch.nn.Parameter(torch.ones(3))]}]
    return torch.optim.SGD(groups, lr=rate, momentum=0.5)


def plateaus(**fields: float) -> Partition:
    whole = {"learning_rate": 0.1, "best": 2.0, "num_bad_epochs": 1, "cooldown_counter": 0, **fields}
    return Partition(plateau={name: np.asarray(value) for name, value in whole.items()})


def seen(count: int) -> Partition:
    return Partition(counts=[np.asarray(count)])


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_check_moves_nothing_and_finds_what_would_fail(name: str, tensor: bool) -> None:
    optimizer = sgd(torch.tensor(0.3, dtype=torch.float64) if tensor else 0.3)
    scheduler = SCHEDULERS[name](optimizer)
    placement = placement_of(scheduler, {1: [seen(28)]}, 3)
    before = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    placement.check()
    assert (optimizer.state_dict(), scheduler.state_dict()) == before
    placement.make()
    assert (optimizer.state_dict(), scheduler.state_dict()) != before
    with pytest.raises(PortError, match="has taken 9 steps, and cannot go back to 8"):
        placement_of(scheduler, {0: [seen(26)]}, 3).check()


def test_a_plateau_beside_a_schedule() -> None:
    optimizer = sgd()
    plateau, steps = L.ReduceLROnPlateau(optimizer), L.StepLR(optimizer, 2)
    standing = {
        index: [Partition(outer=seen(5), plateau=plateaus(learning_rate=rate).plateau)]
        for index, rate in enumerate((0.1, 0.02))
    }
    placement_of(together([steps, plateau]), standing, None).make()
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.02]
    assert (steps.last_epoch, plateau.best, plateau.num_bad_epochs) == (5, 2.0, 1)
    # A group that is not trained keeps its rate.
    placement_of(plateau, {1: [plateaus(learning_rate=0.004)]}, None).make()
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.004]


def test_what_cannot_be() -> None:
    def told(scheduler: Any, *groups: list[Partition]) -> str:
        with pytest.raises(PortError) as caught:
            placement_of(scheduler, dict(enumerate(groups)), None)
        return str(caught.value)

    optimizer = sgd()
    plateau, steps = L.ReduceLROnPlateau(optimizer), L.StepLR(optimizer, 2)
    assert "the current rate of a ReduceLROnPlateau, 0.1: pass torch's as scheduler=" in told(None, [plateaus()], [])
    assert "the current rate of a ReduceLROnPlateau, 0.1: pass" in told(steps, [plateaus()], [])
    assert "made without a ReduceLROnPlateau" in told(plateau, [seen(3)], [])
    assert "has no position for the StepLR" in told(steps, [], [])
    assert "have different positions: [3, 4]" in told(steps, [seen(3)], [seen(4)])
    assert "several positions" in told(plateau, [plateaus()], [plateaus(best=1.0)])
    assert "torch's group 0 has one rate, the state has [0.05, 0.1]" in told(
        plateau, [plateaus(), plateaus(learning_rate=0.05)], []
    )
    assert placement_of(None, {0: [seen(3)], 1: [seen(3)]}, None).schedule is None
