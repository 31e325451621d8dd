"""Where a schedule stands whose scheduler is stepped once an epoch, handed over at any update."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

import port
from models.recorded import Recorded, both, distance, flax_steps, torch_step
from port.errors import UsageError

LIMIT = 1e-10
VISIBLE = 1e-7


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda params: torch.optim.Adam(params, lr=0.1),
}


def run(recorded: Recorded, name: str, start: int, *, before: int = 0, **options: Any) -> float:
    """The distance over 12 updates from ``start`` on; ``before`` updates were made before the scheduler was."""
    module = recorded.fresh()
    optimizer = OPTIMIZERS[name](module.parameters())
    for gradients in recorded.gradients[:before]:
        torch_step(module, optimizer, gradients)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    after = lambda step: scheduler.step() if step % 5 == 4 else None  # noqa: E731
    given: dict[str, Any] = {"scheduler": scheduler, "steps_per_epoch": 5, **options}
    return both(recorded, module, optimizer, after=after, start=start, until=start + 12, **given)


@pytest.mark.parametrize("name", ["sgd", "momentum"])
def test_where_the_optimizer_does_not_count_it_is_told(name: str, recorded: Recorded) -> None:
    assert run(recorded, name, 17, step=17) <= LIMIT
    assert run(recorded, name, 17, step=18) > VISIBLE  # the planted fault
    with pytest.raises(UsageError, match=r"SGD does not count its updates, and the ExponentialLR .* 3 so far.*step="):
        run(recorded, name, 17)
    with pytest.raises(UsageError, match=r"SGD does not count"):
        run(recorded, name, 2)


def test_a_fresh_one_stands_at_the_start(recorded: Recorded) -> None:
    assert run(recorded, "sgd", 0) <= LIMIT


def test_a_scheduler_that_was_made_later(recorded: Recorded) -> None:
    assert run(recorded, "adam", 17, before=13, step=17) <= LIMIT
    with pytest.raises(UsageError, match=r"counts 30 updates, and the ExponentialLR has taken 3 .* 15 to 20"):
        run(recorded, "adam", 17, before=13)
    with pytest.raises(UsageError, match=r"step is 21, and .* expected 15 to 20"):
        run(recorded, "adam", 17, step=21)


def test_the_place_is_one_for_parameters_stepped_unequally_often(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    for place, gradients in enumerate(recorded.gradients[:8]):
        torch_step(module, optimizer, gradients, lambda: setattr(module.fc2.bias, "grad", None))
        if place % 5 == 4:
            scheduler.step()
    after = lambda step: scheduler.step() if step % 5 == 1 else None  # noqa: E731
    found = both(recorded, module, optimizer, after=after, until=12, scheduler=scheduler, steps_per_epoch=5)
    assert found <= LIMIT


def test_behind_an_epochs_last_update_and_before_the_schedulers_step(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    for gradients in recorded.gradients[:5]:
        torch_step(module, optimizer, gradients)
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    given: dict[str, Any] = {"params": params, "mapping": recorded.mapping, "scheduler": scheduler}
    transformation, state = port.to_optax(optimizer, steps_per_epoch=5, **given)
    early, early_state = port.to_optax(optimizer, **given)  # the planted fault: the rate of the epoch that has ended
    scheduler.step()
    torch_step(module, optimizer, recorded.gradients[5])
    gradients = recorded.to_flax(recorded.gradients[5])
    right, _ = flax_steps(transformation)(gradients, state, params)
    wrong, _ = flax_steps(early)(gradients, early_state, params)
    assert distance(recorded.to_torch(right), module) <= LIMIT
    assert distance(recorded.to_torch(wrong), module) > VISIBLE


def test_a_step_without_epochs_is_the_schedulers_own(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    given: dict[str, Any] = {"params": recorded.params, "mapping": recorded.mapping}
    with pytest.raises(UsageError, match=r"step is 4, and the StepLR has taken 0 steps of 1 updates"):
        port.to_optax(optimizer, scheduler=lr_scheduler.StepLR(optimizer, 3), step=4, **given)
