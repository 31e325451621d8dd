"""What a torch scheduler does, step by step: a fresh copy of it, stepped on groups of its own."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

from port.errors import UsageError
from port.pairs.schedules.known import pair_of_scheduler

# What a stage for a scheduler has to have in place of the optimizer's step: torch warns where it was never called.
_called = SimpleNamespace(_wrapped_by_lr_sched=True)


def rehearse(scheduler: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The rates and the momenta (or Adam's b1) of a scheduler's first steps, from its very first on.

    The live scheduler and its optimizer are left alone; the functions that it was given are called.

    Args:
        scheduler: a torch scheduler, of one of the classes that pairs speak of, at any place of its run.
        steps: how many values.

    Returns:
        two (steps, groups) float64 arrays; momenta are NaN where a group has none. Fewer rows where torch itself
        refuses to go on, as OneCycleLR does behind its last step.

    Raises:
        UsageError: torch refuses its first step.
    """
    stage = _stage(scheduler.optimizer)
    rates, momenta = [], []
    failure: Exception | None = None
    twin: Any = None
    for _ in range(steps):
        try:
            if twin is None:
                twin = _fresh(scheduler, stage)
            else:
                twin.step()
        except Exception as error:  # Whatever a function of the user's may raise.
            failure = error
            break
        rates.append([float(group["lr"]) for group in stage.param_groups])
        momenta.append([momentum_of(group) for group in stage.param_groups])
    if failure is not None and not rates:
        raise UsageError(f"{type(scheduler).__name__} cannot be stepped: {failure}") from failure
    return np.array(rates), np.array(momenta)


def momentum_of(group: dict[str, Any]) -> float:
    """What a scheduler cycles in a group: Adam's b1, or the momentum; NaN if it has neither."""
    return float(group["betas"][0] if "betas" in group else group.get("momentum", np.nan))


def _stage(optimizer: Any) -> Any:
    """What schedulers see of an optimizer, as it was before the first of them."""
    groups = [
        {**group, "params": [], "lr": _like(group["lr"], group.get("initial_lr", group["lr"]))}
        for group in optimizer.param_groups
    ]
    return SimpleNamespace(param_groups=groups, defaults=optimizer.defaults, step=_called, _opt_called=True)


def _like(present: Any, rate: Any) -> Any:
    """A rate as the group has it: a tensor of its own where it is one, which rounds what is put into it."""
    return present.clone().fill_(float(rate)) if hasattr(present, "fill_") else float(rate)


def _fresh(scheduler: Any, stage: Any) -> Any:
    """A copy that has taken its initial step. The arguments are not kept by all schedulers, what they make of them is:
    so nothing is built anew but those that hold others, whose making is their behaviour."""
    if hasattr(scheduler, "_schedulers"):
        held = [_fresh(inner, stage) for inner in scheduler._schedulers]
        if hasattr(scheduler, "_milestones"):
            return type(scheduler)(stage, held, list(scheduler._milestones))
        return type(scheduler)(held, stage)
    twin = copy.copy(scheduler)
    twin.optimizer, twin.last_epoch = stage, -1
    own = twin.base_lrs
    if (pair := pair_of_scheduler(scheduler)) is not None:
        pair.rewind(twin)
    twin._initial_step()
    twin.base_lrs = own
    return twin
