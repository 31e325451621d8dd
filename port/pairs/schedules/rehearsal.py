"""Simulating a torch scheduler step by step, on a fresh copy with its own groups."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

from port.errors import UsageError
from port.pairs.schedules.known import pair_of_scheduler

# Replaces the optimizer's step on a stage: torch warns if it was never wrapped.
_called = SimpleNamespace(_wrapped_by_lr_sched=True)


def rehearse(scheduler: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates and momenta (or Adam's b1) of a scheduler, from its first step on.

    The live scheduler and its optimizer are not changed; the user's functions are called.

    Args:
        scheduler: a torch scheduler of a known class, at any step.
        steps: number of values.

    Returns:
        Two (steps, groups) float64 arrays; momenta are NaN for groups without one. There are fewer rows if torch
        raises, as OneCycleLR does after its last step.

    Raises:
        UsageError: torch raises at the first step.
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
        except Exception as error:  # A user's function may raise anything.
            failure = error
            break
        rates.append([float(group["lr"]) for group in stage.param_groups])
        momenta.append([momentum_of(group) for group in stage.param_groups])
    if failure is not None and not rates:
        raise UsageError(f"{type(scheduler).__name__} cannot be stepped: {failure}") from failure
    return np.array(rates), np.array(momenta)


def momentum_of(group: dict[str, Any]) -> float:
    """Return what a scheduler cycles in a group: Adam's b1, or the momentum; NaN without either."""
    return float(group["betas"][0] if "betas" in group else group.get("momentum", np.nan))


def _stage(optimizer: Any) -> Any:
    """Build a stand-in for an optimizer, in its state before the first scheduler."""
    groups = [
        {**group, "params": [], "lr": _like(group["lr"], group.get("initial_lr", group["lr"]))}
        for group in optimizer.param_groups
    ]
    return SimpleNamespace(param_groups=groups, defaults=optimizer.defaults, step=_called, _opt_called=True)


def _like(present: Any, rate: Any) -> Any:
    """Convert a rate to the type of the group's: a new tensor, which rounds it, or a number."""
    return present.clone().fill_(float(rate)) if hasattr(present, "fill_") else float(rate)


def _fresh(scheduler: Any, stage: Any) -> Any:
    """Copy a scheduler and take its initial step.

    Not all schedulers keep their constructor's arguments, but all keep what they compute from them: so only those that
    hold others, whose constructors step them, are constructed again.
    """
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
