"""What stands around the optimizer's step: its options, and the momentum that a scheduler cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import port
from models.recorded import Recorded, distance, flax_steps, torch_step
from port.errors import UsageError
from port.optim.assembling import Around

LIMIT = 1e-10
VISIBLE = 1e-3


def test_options_are_pythons_own_numbers() -> None:
    around = Around(torch.tensor(0.5), "inf", np.float64(2.0), np.int64(4), np.True_)  # type: ignore[arg-type]
    assert around == Around(0.5, float("inf"), 2.0, 4, True)
    assert [type(one) for one in (around.clip_norm, around.clip_value, around.accumulate)] == [float, float, int]


@pytest.mark.parametrize(
    "given",
    [
        {"clip_norm": -1.0},
        {"clip_norm": "a"},
        {"clip_value": -1.0},
        {"norm_type": "x"},
        {"accumulate": 0},
        {"accumulate": 2.5},
        {"accumulate": True},
        {"accumulate": None},
        {"accumulate_mean": 4},
        {"steps_per_epoch": 0},
        {"steps": 0},
        {"step": -1},
    ],
)
def test_options_that_cannot_be_right(given: dict[str, Any], recorded: Recorded) -> None:
    optimizer = torch.optim.SGD(recorded.fresh().parameters(), lr=0.1)
    (name,) = given
    for call in (port.to_optax, port.optax_source):
        with pytest.raises(UsageError, match=rf"^{name} must be "):
            call(optimizer, params=recorded.params, mapping=recorded.mapping, **given)


SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "cyclic": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4, base_momentum=0.5),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.thin(2)
def test_muons_momentum_is_cycled(schedule: str, recorded: Recorded) -> None:
    found = {}
    for cycled in (True, False):
        module = recorded.fresh()
        optimizer = torch.optim.Muon([module.fc1.weight, module.fc2.weight], lr=0.1)
        scheduler = SCHEDULES[schedule](optimizer)
        for gradients in recorded.gradients[:3]:
            torch_step(module, optimizer, gradients)
            scheduler.step()
        params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
        scheduler.cycle_momentum = cycled  # the planted fault: the momentum stays where it is
        transformation, state = port.to_optax(
            optimizer, scheduler=scheduler, params=params, mapping=recorded.mapping, model=module
        )
        scheduler.cycle_momentum = True
        step = flax_steps(transformation)
        for gradients in recorded.gradients[3:12]:
            torch_step(module, optimizer, gradients)
            scheduler.step()
            params, state = step(recorded.to_flax(gradients), state, params)
        found[cycled] = distance(recorded.to_torch(params), module)
    assert found[True] <= LIMIT
    assert found[False] > VISIBLE
