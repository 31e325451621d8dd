"""The number of updates since a scheduler was made, which it does not count if it is stepped once per epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import UsageError
from port.pairs.optimizers import STEP, pair_of_optimizer

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


def updates_since(scheduler: Scheduler, epochs: int, *, steps_per_epoch: int | None, step: int | None) -> int:
    """Compute the position of a schedule that counts updates.

    It is the same for all parameters of the optimizer, also for those that had no gradient in some of the updates. An
    epoch's last update may be done while the scheduler has not been stepped yet: the position is then the next epoch's
    first, which is what the next update uses.

    Args:
        scheduler: torch's scheduler, with its optimizer.
        epochs: how many steps it has made.
        steps_per_epoch: updates between two of them; None if it is stepped with every update.
        step: the number of updates, if known; otherwise the optimizer's own count is used.

    Raises:
        UsageError: no count, as for SGD and Muon; or a count that contradicts the scheduler's position.
    """
    if steps_per_epoch is None and step is None:
        return epochs
    every, name = steps_per_epoch or 1, type(scheduler).__qualname__
    counted = counted_updates(scheduler.optimizer, epochs) if step is None else step
    if counted is None:
        raise UsageError(
            f"{type(scheduler.optimizer).__qualname__} does not count its updates, and the {name} only its own steps, "
            f"{epochs} so far, {every} updates each: which of them is next is not known. Pass step=, the number of "
            "updates since the scheduler was made"
        )
    if not 0 <= counted - epochs * every <= every:
        count = f"step is {step}" if step is not None else f"the optimizer counts {counted} updates"
        raise UsageError(
            f"{count}, and the {name} has taken {epochs} steps of {every} updates each: expected {epochs * every} to "
            f"{(epochs + 1) * every}. Pass step=, the number of updates since the scheduler was made, if that was "
            "later than the optimizer, and steps_per_epoch=, the updates (not micro-batches) between its steps"
        )
    return counted


def counted_updates(optimizer: torch.optim.Optimizer, epochs: int) -> int | None:
    """The number of updates of an optimizer whose scheduler has made that many steps; None if nothing counts them."""
    states = [state for state in optimizer.state.values() if state]
    if pair_of_optimizer(optimizer).counts:
        return max((int(state[STEP]) for state in states if STEP in state), default=0)
    # A scheduler makes its optimizer record whether it has been stepped.
    fresh = not states and epochs == 0 and not getattr(optimizer, "_opt_called", False)
    return 0 if fresh else None
