"""Combines several schedulers of one optimizer, which are stepped one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from port.errors import UsageError

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


@dataclass(frozen=True)
class WithPlateau:
    """A ReduceLROnPlateau and the scheduler stepped beside it.

    Attributes:
        plateau: the ReduceLROnPlateau.
        scheduler: the other scheduler; a ChainedScheduler if there are several.
        plateau_first: whether the plateau is stepped before the other.
    """

    plateau: Scheduler
    scheduler: Scheduler
    plateau_first: bool


def together(schedulers: Sequence[Scheduler]) -> Scheduler | WithPlateau:
    """Combine the schedulers of one optimizer into one.

    Stepping them one after the other is all that torch's ChainedScheduler does: so the result is one.

    Args:
        schedulers: at least one, in the order in which they are stepped.

    Raises:
        UsageError: one that is passed twice; several ReduceLROnPlateau, or one that is stepped between others.
    """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    names = " and ".join(type(one).__qualname__ for one in schedulers)
    if len({id(one) for one in schedulers}) < len(schedulers):
        raise UsageError(f"one scheduler is passed twice ({names}): leave it out once")
    plateaus = [place for place, one in enumerate(schedulers) if isinstance(one, ReduceLROnPlateau)]
    if not plateaus or len(schedulers) == 1:
        return _chained(schedulers)
    first, last = plateaus == [0], plateaus == [len(schedulers) - 1]
    if not first and not last:
        raise UsageError(
            f"{names} change one learning rate; beside other schedulers there may be one ReduceLROnPlateau, stepped "
            "before all of them or after them: pass it first or last, in the order of the steps"
        )
    others = schedulers[1:] if first else schedulers[:-1]
    return WithPlateau(schedulers[plateaus[0]], _chained(others), plateau_first=first)


def _chained(schedulers: Sequence[Scheduler]) -> Scheduler:
    from torch.optim.lr_scheduler import ChainedScheduler

    return schedulers[0] if len(schedulers) == 1 else ChainedScheduler(list(schedulers))
