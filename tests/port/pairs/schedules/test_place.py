"""A fresh torch scheduler, brought to a count, is the one that was stepped there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as L
from torch.optim.swa_utils import SWALR

from port.errors import UsageError
from port.pairs.schedules import place, place_of, place_plateau, plateau_of

SCHEDULERS = {
    "cosine": lambda o: L.CosineAnnealingLR(o, 7, 0.01),
    "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2, 1e-3),
    "one cycle": lambda o: L.OneCycleLR(o, 0.5, 40),
    "swa": lambda o: SWALR(o, 0.05, 20),
    "sequence": lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 5), L.ExponentialLR(o, 0.9)], [5]),
    "chain": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 4), L.ExponentialLR(o, 0.9)]),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("count", [0, 1, 13])
def test_as_if_stepped(name: str, count: int, live: Any, run: Any) -> None:
    stepped = live(SCHEDULERS[name], count)
    optimizer = live(SCHEDULERS[name]).optimizer
    groups = [
        {"params": group["params"], "lr": rate} for group, rate in zip(optimizer.param_groups, (0.3, 0.07), strict=True)
    ]
    placed = SCHEDULERS[name](torch.optim.SGD(groups, momentum=0.5))  # no step was taken: torch would warn
    place(placed, count)
    assert place_of(placed) == place_of(stepped) == count
    assert placed.get_last_lr() == stepped.get_last_lr()
    for got, want in zip(placed.optimizer.param_groups, stepped.optimizer.param_groups, strict=True):
        assert {**got, "params": []} == {**want, "params": []}
    placed.optimizer.step()
    rates, momenta = run(placed, 9)
    wanted_rates, wanted_momenta = run(stepped, 9)
    assert (rates == wanted_rates).all()
    assert (momenta == wanted_momenta).all()
    # The planted fault: a step too many.
    assert (live(SCHEDULERS[name], count + 1).get_last_lr() != stepped.get_last_lr()) or count == 0


def test_what_cannot_be(live: Any) -> None:
    with pytest.raises(UsageError, match="StepLR has taken 4 steps, and cannot go back to 3"):
        place(live(lambda o: L.StepLR(o, 3), 4), 3)
    with pytest.raises(UsageError, match="OneCycleLR failed at step 11 of 15: Tried to step 11 times"):
        place(live(lambda o: L.OneCycleLR(o, 0.5, 10)), 15)
    plateau = L.ReduceLROnPlateau(live(lambda o: L.StepLR(o, 3)).optimizer)
    with pytest.raises(UsageError, match="see place_plateau"):
        place(plateau, 3)
    with pytest.raises(UsageError, match="has 2 groups, got 1 rates"):
        place_plateau(plateau, [0.1], best=0.0, num_bad_epochs=0, cooldown_counter=0)


def test_a_plateau_goes_on_where_another_stood(live: Any) -> None:
    def make(optimizer: Any) -> Any:
        return L.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=2)

    metrics = [3.0, 2.0, 2.5, 2.0, 2.0, 1.9, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.1, 1.1]
    whole, first, second = (make(live(lambda o: L.ConstantLR(o, 1.0)).optimizer) for _ in range(3))
    for metric in metrics:
        whole.step(metric)
    for metric in metrics[:7]:
        first.step(metric)
    stood = plateau_of(first, 0)
    place_plateau(
        second,
        [group["lr"] for group in first.optimizer.param_groups],
        best=stood.best,
        num_bad_epochs=stood.num_bad_epochs,
        cooldown_counter=stood.cooldown_counter,
        last_epoch=7,
    )
    assert stood.learning_rate < 0.3
    for metric in metrics[7:]:
        second.step(metric)
    state, wanted = second.state_dict(), whole.state_dict()
    assert state == wanted
