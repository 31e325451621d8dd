"""A scheduler saved with its optimizer in the middle of a run, read back by its class alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as L
from torch.optim.swa_utils import SWALR

from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.optim.saved import read_optimizer
from port.optim.saved_scheduler import read_scheduler, scheduler_places
from port.pairs.schedules import plateau_of, schedule_of
from port.pairs.schedules.kept import KEPT

SAVED: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: L.StepLR(o, 3, 0.7),
    "MultiStepLR": lambda o: L.MultiStepLR(o, [0, 4, 4, 15], 0.5),
    "ConstantLR": lambda o: L.ConstantLR(o, 0.2, 16),
    "LinearLR": lambda o: L.LinearLR(o, 0.3, 0.9, 17),
    "ExponentialLR": lambda o: L.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda o: L.PolynomialLR(o, 18, 1.7),
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 7, 0.01),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2, 1e-3),
    "CyclicLR": lambda o: L.CyclicLR(o, 0.01, [0.2, 0.4], 5, 3),
    "CyclicLR decaying": lambda o: L.CyclicLR(o, [0.01, 0.02], 0.4, 2.5, 3, mode="exp_range", gamma=0.9),  # type: ignore[arg-type]
    "OneCycleLR": lambda o: L.OneCycleLR(o, [0.3, 0.5], 40, three_phase=True, anneal_strategy="linear"),
    "OneCycleLR alone": lambda o: L.OneCycleLR(o, 0.5, 34, cycle_momentum=False),
    "SWALR": lambda o: SWALR(o, [0.05, 0.4], 15),
}
COUNT, NEXT = 13, 20


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(3, 2), torch.nn.Linear(2, 5, bias=False)


def live(make: Callable[[Any], Any], steps: int = COUNT) -> tuple[Any, Any]:
    model = Model()
    groups = [
        {"params": list(part.named_parameters(name)), "lr": rate}
        for name, part, rate in (("one", model.one, 0.3), ("two", model.two, 0.07))
    ]
    optimizer = torch.optim.SGD(groups, momentum=0.5)
    scheduler = make(optimizer)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    for step in range(steps):
        optimizer.step()
        scheduler.step(*([1 / min(step + 1, 4)] if isinstance(scheduler, L.ReduceLROnPlateau) else []))
    return optimizer, scheduler


def read(path: Path, optimizer: Any, scheduler: Any, cls: Any = None, **options: Any) -> Any:
    state = options.pop("state", None) or scheduler.state_dict()
    torch.save({"optimizer": optimizer.state_dict(), "lr_scheduler": state, **options}, path)
    saved = read_optimizer(path, type(optimizer), Model())
    return read_scheduler(path, saved.content, cls or type(scheduler), saved.optimizer)


def rates(optimizer: Any, scheduler: Any) -> np.ndarray:
    """(steps, groups, rate and momentum): what is before it."""
    found = []
    for _ in range(NEXT):
        found.append([[group["lr"], group["momentum"]] for group in optimizer.param_groups])
        scheduler.step()
    return np.array(found)


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.thin(3)
def test_what_is_before_it_is_torchs(name: str, tmp_path: Path) -> None:
    optimizer, scheduler = live(SAVED[name])
    found = read(tmp_path / "last.pt", optimizer, scheduler)
    assert found.place == "lr_scheduler"
    wanted = [schedule_of(scheduler, group) for group in (0, 1)]
    assert [schedule_of(found.scheduler, group) for group in (0, 1)] == wanted
    coming = rates(optimizer, scheduler)
    assert coming.std(0)[:, 0].min() > 1e-3, "the rate moves"
    for group, scheduled in enumerate(wanted):
        assert scheduled.count == COUNT
        for place, schedule in enumerate((scheduled.learning_rate, scheduled.momentum)):
            if schedule is None:
                assert (coming[:, group, place] == 0.5).all()
                continue
            values = jax.vmap(schedule.build())  # type: ignore[union-attr]
            steps = jnp.arange(COUNT, COUNT + NEXT)
            np.testing.assert_allclose(values(steps), coming[:, group, place], rtol=1e-12)
            assert np.abs(values(steps - 1) - coming[:, group, place]).max() > 1e-3, "the planted fault: a step behind"
    # What was read goes on in torch as well.
    np.testing.assert_array_equal(rates(found.scheduler.optimizer, found.scheduler), coming)


def test_a_plateau(tmp_path: Path) -> None:
    make = lambda o: L.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2, min_lr=[0.0, 0.05])  # noqa: E731
    optimizer, scheduler = live(make)
    found = read(tmp_path / "last.pt", optimizer, scheduler).scheduler
    for group in (0, 1):
        assert plateau_of(found, group) == plateau_of(scheduler, group)
    assert plateau_of(found, 0).learning_rate < 0.3
    _, earlier = live(make, COUNT - 1)
    assert plateau_of(found, 0) != plateau_of(earlier, 0), "the planted fault: a metric behind"


def test_every_class_is_among_them() -> None:
    made = {name.split()[0] for name in SAVED} | {"ReduceLROnPlateau"}
    assert made == {kept.name for kept in KEPT if kept.lacks is None}


@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "OneCycleLR"])
def test_a_place_that_is_not_the_optimizers_is_seen(name: str, tmp_path: Path) -> None:
    optimizer, scheduler = live(SAVED[name], 14)
    state = {**scheduler.state_dict(), "last_epoch": 15}
    with pytest.raises(UsageError, match=rf"last.pt: lr_scheduler: group 0 has the rate .* but {name} alone"):
        read(tmp_path / "last.pt", optimizer, scheduler, state=state)


def test_another_class(tmp_path: Path) -> None:
    optimizer, scheduler = live(SAVED["StepLR"])
    message = (
        r"last\.pt: lr_scheduler: it has gamma, step_size, and torch\.optim\.lr_scheduler\.CosineAnnealingLR stores "
        r"T_max, eta_min: it is the state of torch\.optim\.lr_scheduler\.StepLR"
    )
    with pytest.raises(WeightsMismatch, match=message):
        read(tmp_path / "last.pt", optimizer, scheduler, L.CosineAnnealingLR)
    with pytest.raises(WeightsMismatch, match=r"it has step_size, and .*ExponentialLR stores gamma: .*StepLR"):
        read(tmp_path / "last.pt", optimizer, scheduler, L.ExponentialLR)
    with pytest.raises(WeightsMismatch, match="it is the state of another class"):
        read(tmp_path / "last.pt", optimizer, scheduler, state={**scheduler.state_dict(), "own": 1})
    for unknown, told in ((torch.optim.SGD, "torch.optim.sgd.SGD"), (L.StepLR.step, "function"), (3, "int")):
        with pytest.raises(UsageError, match=f"no scheduler is known for {told}; there are: StepLR, "):
            read(tmp_path / "last.pt", optimizer, scheduler, unknown)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda o: L.LambdaLR(o, lambda step: 0.9**step), "not contain the scheduler's functions"),
        (lambda o: L.MultiplicativeLR(o, lambda step: 0.9), "not contain the scheduler's functions"),
        (lambda o: L.SequentialLR(o, [L.LinearLR(o), L.StepLR(o, 3)], [5]), "does not contain the classes"),
        (lambda o: L.ChainedScheduler([L.LinearLR(o), L.StepLR(o, 3)]), "does not contain the classes"),
    ],
)
def test_what_a_state_dict_does_not_say(make: Any, reason: str, tmp_path: Path) -> None:
    optimizer, scheduler = live(make, 2)
    with pytest.raises(UsageError, match=rf"cannot be made of its state dict: .*{reason}.* port\.to_optax\("):
        read(tmp_path / "last.pt", optimizer, scheduler)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("StepLR", {"last_epoch": None}, "last_epoch must be a number of steps, got None"),
        ("StepLR", {"last_epoch": -2}, "number of steps, got -2"),
        ("StepLR", {"last_epoch": 2**31}, "number of steps"),
        ("StepLR", {"base_lrs": [0.3]}, r"base_lrs must be one for each of the optimizer's 2 groups, got \[0.3\]"),
        ("StepLR", {"step_size": 0}, "ZeroDivisionError|StepLR"),
        ("StepLR", {"gamma": "much"}, "no StepLR can be made of it .*much"),
        ("CosineAnnealingLR", {"T_max": None}, "no CosineAnnealingLR can be made of it"),
        ("OneCycleLR", {"_schedule_phases": []}, "no OneCycleLR can be made of it .*IndexError"),
        ("CyclicLR", {"max_lrs": 0.3}, "max_lrs must be one for each"),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}, "T_0 must be a whole number of at least 1, got 0"),
        ("CosineAnnealingWarmRestarts", {"T_mult": 0.5}, r"T_mult must be a whole number of at least 1, got 0\.5"),
        ("SWALR", {"anneal_epochs": "x"}, "no SWALR can be made of it"),
    ],
)
def test_values_that_cannot_be(name: str, bad: dict[str, Any], message: str, tmp_path: Path) -> None:
    optimizer, scheduler = live(SAVED[name])
    with pytest.raises((WeightsMismatch, UsageError), match=message):
        read(tmp_path / "last.pt", optimizer, scheduler, state={**scheduler.state_dict(), **bad})


def test_a_plateaus_values_that_cannot_be(tmp_path: Path) -> None:
    optimizer, scheduler = live(lambda o: L.ReduceLROnPlateau(o))
    with pytest.raises(WeightsMismatch, match="num_bad_epochs must be a number of steps, got inf"):
        read(tmp_path / "last.pt", optimizer, scheduler, state={**scheduler.state_dict(), "num_bad_epochs": math.inf})
    for bad in ({"patience": "x"}, {"best": None}, {"mode": "middle"}, {"eps": []}):
        with pytest.raises(WeightsMismatch, match="no ReduceLROnPlateau can be made of it"):
            read(tmp_path / "last.pt", optimizer, scheduler, state={**scheduler.state_dict(), **bad})


def test_the_groups_have_to_hold_their_part(tmp_path: Path) -> None:
    _, scheduler = live(SAVED["OneCycleLR"])
    plain, _ = live(lambda o: L.ConstantLR(o))
    with pytest.raises(
        WeightsMismatch, match=r"no OneCycleLR can be made of it and of the optimizer's groups: .*max_lr"
    ):
        read(tmp_path / "last.pt", plain, scheduler)


def test_where_it_is(tmp_path: Path) -> None:
    optimizer, scheduler = live(SAVED["StepLR"])
    state = scheduler.state_dict()
    content = {"epoch": 3, "model": {"a": torch.zeros(2)}, "warmup": state, "later": {**state, "own": 1}}
    assert scheduler_places(content) == {"warmup": ["torch.optim.lr_scheduler.StepLR"], "later": []}
    assert scheduler_places([state]) == {}
    with pytest.raises(UsageError, match="several schedulers: choose one: warmup, later"):
        read_scheduler("last.pt", content, L.StepLR, optimizer)
    assert read_scheduler("last.pt", content, L.StepLR, optimizer, key="warmup").place == "warmup"
    with pytest.raises(UsageError, match="no scheduler's state dict at 'model'; it has epoch, model, warmup, later"):
        read_scheduler("last.pt", content, L.StepLR, optimizer, key="model")
    with pytest.raises(BrokenWeights, match=r"no scheduler's state dict \(of epoch\)"):
        read_scheduler("last.pt", {"epoch": 3}, L.StepLR, optimizer)
