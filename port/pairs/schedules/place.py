"""Where a torch scheduler stands, and bringing a fresh one there."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from port.errors import UsageError


def place_of(scheduler: Any) -> int:
    """How many steps a scheduler has taken since it was made.

    Raises:
        UsageError: a ChainedScheduler whose schedulers stand at several places.
    """
    if not hasattr(scheduler, "last_epoch"):  # A ChainedScheduler: it counts nothing itself.
        places = {place_of(held) for held in scheduler._schedulers}
        if len(places) != 1:
            names = " and ".join(type(held).__name__ for held in scheduler._schedulers)
            raise UsageError(
                f"{names} have taken {sorted(places)} steps: schedulers of one optimizer are to step together, one "
                "after the other"
            )
        return places.pop()
    return int(scheduler.last_epoch)


def place(scheduler: Any, count: int) -> None:
    """Step a scheduler to a count, its optimizer's rates and momenta with it, as training would have.

    Args:
        scheduler: a torch scheduler that stands before it: a fresh one.
        count: the steps that it is to have taken.

    Raises:
        UsageError: it stands behind the count already, it follows a metric (see `place_plateau`), or torch refuses.
    """
    if hasattr(scheduler, "num_bad_epochs"):
        raise UsageError(f"{type(scheduler).__name__} follows a metric, not the count of steps: see place_plateau")
    present = place_of(scheduler)
    if count < present:
        raise UsageError(f"the {type(scheduler).__name__} has taken {present} steps, it cannot go back to {count}")
    if count > present:
        # torch warns of a scheduler that steps before its optimizer did.
        scheduler.optimizer._opt_called = True
    for step in range(present + 1, count + 1):
        try:
            scheduler.step()
        except Exception as error:
            raise UsageError(f"{type(scheduler).__name__} refuses step {step} of {count}: {error}") from error


def check_place(scheduler: Any, count: int) -> None:
    """See whether `place` would do: it is tried on a copy, and nothing of the scheduler or its optimizer changes.

    Raises:
        UsageError: as `place`.
    """
    optimizer = scheduler.optimizer
    groups = [{**group, "params": [], "lr": copy.deepcopy(group["lr"])} for group in optimizer.param_groups]
    stage = SimpleNamespace(param_groups=groups, defaults=optimizer.defaults, step=optimizer.step)
    place(_twin(scheduler, stage), count)


def _twin(scheduler: Any, stage: Any) -> Any:
    """A copy that stands where the scheduler does, and moves the stage's groups."""
    twin = copy.copy(scheduler)
    twin.optimizer = stage
    if hasattr(twin, "_schedulers"):
        twin._schedulers = [_twin(held, stage) for held in twin._schedulers]
    if hasattr(twin, "lr_lambdas"):
        # Objects with a state of their own keep it to themselves.
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
    """Bring a ReduceLROnPlateau and its optimizer to where a `port.transforms.TorchPlateauState` stands.

    Args:
        scheduler: the scheduler.
        learning_rates: the present rate of each of the optimizer's groups; None where it stays as it is.
        best: the best metric so far.
        num_bad_epochs: how many metrics in a row were no better.
        cooldown_counter: how many metrics are still to come before bad ones count again.
        last_epoch: how many metrics there were, which torch counts but does not use; by default left as it is.

    Raises:
        UsageError: not one rate for each group.
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
