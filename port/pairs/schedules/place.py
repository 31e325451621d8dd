"""The position of a torch scheduler, and advancing a fresh one to it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from port.errors import UsageError


def place_of(scheduler: Any) -> int:
    """Return the number of steps that a scheduler has taken since its construction.

    Raises:
        UsageError: a ChainedScheduler whose schedulers have taken different numbers of steps.
    """
    if not hasattr(scheduler, "last_epoch"):  # A ChainedScheduler has no count of its own.
        places = {place_of(held) for held in scheduler._schedulers}
        if len(places) != 1:
            names = " and ".join(type(held).__name__ for held in scheduler._schedulers)
            raise UsageError(
                f"{names} have taken {sorted(places)} steps: schedulers of one optimizer must step together, one "
                "after the other"
            )
        return places.pop()
    return int(scheduler.last_epoch)


def place(scheduler: Any, count: int) -> None:
    """Advance a scheduler to a step count, with its optimizer's rates and momenta, as in training.

    Args:
        scheduler: a torch scheduler with fewer steps, such as a new one.
        count: the number of steps to reach.

    Raises:
        UsageError: the scheduler is past the count, follows a metric (see `place_plateau`), or torch raises.
    """
    if hasattr(scheduler, "num_bad_epochs"):
        raise UsageError(f"{type(scheduler).__name__} follows a metric, not the count of steps: see place_plateau")
    present = place_of(scheduler)
    if count < present:
        raise UsageError(f"the {type(scheduler).__name__} has taken {present} steps, and cannot go back to {count}")
    if count > present:
        # torch warns if a scheduler steps before its optimizer.
        scheduler.optimizer._opt_called = True
    for step in range(present + 1, count + 1):
        try:
            scheduler.step()
        except Exception as error:
            raise UsageError(f"{type(scheduler).__name__} failed at step {step} of {count}: {error}") from error


def check_place(scheduler: Any, count: int) -> None:
    """Check that `place` would succeed, on a copy: the scheduler and its optimizer are not changed.

    Raises:
        UsageError: as `place`.
    """
    optimizer = scheduler.optimizer
    groups = [{**group, "params": [], "lr": copy.deepcopy(group["lr"])} for group in optimizer.param_groups]
    stage = SimpleNamespace(param_groups=groups, defaults=optimizer.defaults, step=optimizer.step)
    place(_twin(scheduler, stage), count)


def _twin(scheduler: Any, stage: Any) -> Any:
    """Copy a scheduler at its position, to change the stage's groups."""
    twin = copy.copy(scheduler)
    twin.optimizer = stage
    if hasattr(twin, "_schedulers"):
        twin._schedulers = [_twin(held, stage) for held in twin._schedulers]
    if hasattr(twin, "lr_lambdas"):
        # Callable objects may have state.
        twin.lr_lambdas = [copy.copy(one) for one in twin.lr_lambdas]
    return twin


def place_plateau(
    scheduler: Any,
    learning_rates: Sequence[float | None],
    *,
    best: float,
    num_bad_epochs: int,
    cooldown_counter: int,
    last_epoch: int | None = None,
) -> None:
    """Restore a ReduceLROnPlateau and its optimizer from the values of a `port.transforms.TorchPlateauState`.

    Args:
        scheduler: the scheduler.
        learning_rates: the present rate of each of the optimizer's groups; None to keep it.
        best: the best metric so far.
        num_bad_epochs: number of consecutive metrics without improvement.
        cooldown_counter: number of metrics left before bad ones count again.
        last_epoch: number of metrics so far, which torch counts but does not use; unchanged by default.

    Raises:
        UsageError: the number of rates differs from the number of groups.
    """
    groups = scheduler.optimizer.param_groups
    if len(learning_rates) != len(groups):
        raise UsageError(f"the optimizer has {len(groups)} groups, got {len(learning_rates)} rates")
    for group, rate in zip(groups, learning_rates, strict=True):
        if rate is None:
            continue
        if hasattr(group["lr"], "fill_"):
            group["lr"].fill_(rate)
        else:
            group["lr"] = float(rate)
    scheduler.best = float(best)
    scheduler.num_bad_epochs, scheduler.cooldown_counter = int(num_bad_epochs), int(cooldown_counter)
    scheduler._last_lr = [group["lr"] for group in groups]
    if last_epoch is not None:
        scheduler.last_epoch = last_epoch
