"""How many updates there were since a scheduler was made: where it is stepped once an epoch, it does not count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import UsageError
from port.pairs.optimizers import STEP, pair_of_optimizer

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


def updates_since(scheduler: Scheduler, epochs: int, *, steps_per_epoch: int | None, step: int | None) -> int:
    """The place of a schedule that counts updates.

    It is one for all parameters of the optimizer, also for those that had no gradient in some of the updates. An
    epoch's last update may be done while the scheduler is still to be stepped: the place is then the next epoch's
    first, which is what the next update sees.

    Args:
        scheduler: torch's, with its optimizer.
        epochs: how many steps it has taken.
        steps_per_epoch: updates between two of them; None where it is stepped with every update.
        step: the number of updates, if it is known; else it is the optimizer's own count.

    Raises:
        UsageError: no count, as SGD and Muon keep none; or a count at which the scheduler would stand elsewhere.
    """
    if steps_per_epoch is None and step is None:
        return epochs
    every, name = steps_per_epoch or 1, type(scheduler).__qualname__
    counted = counted_updates(scheduler.optimizer, epochs) if step is None else step
    if counted is None:
        raise UsageError(
            f"{type(scheduler.optimizer).__qualname__} does not count its updates, and the {name} only its own steps, "
            f"{epochs} so far, {every} updates each: which of them is next is not known. Give step=, the number of "
            "updates since the scheduler was made"
        )
    if not 0 <= counted - epochs * every <= every:
        count = f"step is {step}" if step is not None else f"the optimizer counts {counted} updates"
        raise UsageError(
            f"{count}, and the {name} has taken {epochs} steps of {every} updates each: expected {epochs * every} to "
            f"{(epochs + 1) * every}. Give step=, the number of updates since the scheduler was made, where that was "
            "later than the optimizer, and steps_per_epoch=, the updates (not micro-batches) between its steps"
        )
    return counted


def counted_updates(optimizer: torch.optim.Optimizer, epochs: int) -> int | None:
    """How many updates an optimizer has made, whose scheduler has taken so many steps; None where nothing tells."""
    states = [state for state in optimizer.state.values() if state]
    if pair_of_optimizer(optimizer).counts:
        return max((int(state[STEP]) for state in states if STEP in state), default=0)
    # A scheduler sees to it that its optimizer says whether it has been stepped.
    fresh = not states and epochs == 0 and not getattr(optimizer, "_opt_called", False)
    return 0 if fresh else None
