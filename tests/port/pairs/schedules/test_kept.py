"""A state dict's keys tell the class: of every scheduler that torch has."""

from __future__ import annotations

from typing import Any

import pytest
from torch.optim import lr_scheduler as L
from torch.optim.swa_utils import SWALR

from port.pairs.schedules.kept import KEPT, classes_that_keep, kept_by

MADE = {
    "StepLR": lambda o: L.StepLR(o, 3, 0.7),
    "MultiStepLR": lambda o: L.MultiStepLR(o, [4, 9]),
    "ConstantLR": lambda o: L.ConstantLR(o, 0.2, 6),
    "LinearLR": lambda o: L.LinearLR(o, 0.3),
    "ExponentialLR": lambda o: L.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda o: L.PolynomialLR(o, 8, 1.7),
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 7),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: L.CyclicLR(o, 0.01, 0.4, 5),
    "CyclicLR alone": lambda o: L.CyclicLR(o, 0.01, 0.4, 5, cycle_momentum=False),
    "OneCycleLR": lambda o: L.OneCycleLR(o, 0.5, 40),
    "OneCycleLR alone": lambda o: L.OneCycleLR(o, 0.5, 40, cycle_momentum=False),
    "SWALR": lambda o: SWALR(o, 0.05),
    "ReduceLROnPlateau": lambda o: L.ReduceLROnPlateau(o),
    "LambdaLR": lambda o: L.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: L.MultiplicativeLR(o, lambda step: 0.9),
    "SequentialLR": lambda o: L.SequentialLR(o, [L.LinearLR(o), L.StepLR(o, 3)], [5]),
    "ChainedScheduler": lambda o: L.ChainedScheduler([L.ConstantLR(o), L.StepLR(o, 3)]),
}


@pytest.mark.parametrize("name", MADE)
def test_the_keys_tell_the_class(name: str, live: Any) -> None:
    scheduler = live(MADE[name])
    state = scheduler.state_dict()
    kept = kept_by(type(scheduler))
    assert kept is not None
    assert kept.name == name.split()[0]
    assert not kept.missing(state)
    assert not kept.strange(state)
    twins = {"LambdaLR", "MultiplicativeLR"}
    assert {found.name for found in classes_that_keep(state)} == (twins if kept.name in twins else {kept.name})


def test_every_class_of_torchs_is_among_them() -> None:
    theirs = {name for name in L.__all__ if name != "LRScheduler"} | {"SWALR"}
    assert {kept.name for kept in KEPT} == {name.split()[0] for name in MADE} == theirs


def test_what_is_another_class_or_none(live: Any) -> None:
    step = live(MADE["StepLR"]).state_dict()
    other = kept_by(L.PolynomialLR)
    assert other is not None
    assert (other.missing(step), other.strange(step)) == (["power", "total_iters"], ["gamma", "step_size"])
    assert classes_that_keep({**step, "own": 3}) == []
    assert kept_by(type("Own", (L.StepLR,), {})) is None


def test_what_a_state_dict_does_not_hold(live: Any) -> None:
    lacking = {kept.name for kept in KEPT if kept.lacks is not None}
    assert lacking == {"LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler"}

    class Scale:
        def __call__(self, x: float) -> float:
            return 1 / x

    cyclic = live(lambda o: L.CyclicLR(o, 0.01, 0.4, 5, scale_fn=Scale())).state_dict()
    kept = kept_by(L.CyclicLR)
    assert kept is not None
    assert "not contain the scheduler's functions" in str(kept.lacking(cyclic))
    assert kept.lacking(live(MADE["CyclicLR"]).state_dict()) is None
