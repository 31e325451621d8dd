"""Several schedulers of one optimizer, stepped one after the other, as the one that they are together."""

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
    """A ReduceLROnPlateau and what is stepped beside it.

    Attributes:
        plateau: the ReduceLROnPlateau.
        scheduler: the other scheduler; a ChainedScheduler where there are several.
        plateau_first: whether it is stepped before the other.
    """

    plateau: Scheduler
    scheduler: Scheduler
    plateau_first: bool


def together(schedulers: Sequence[Scheduler]) -> Scheduler | WithPlateau:
    """The schedulers of one optimizer as one.

    To step them one after the other is all that torch's ChainedScheduler does: so it is one of them.

    Args:
        schedulers: at least one, in the order in which they are stepped.

    Raises:
        UsageError: one that is given twice; several ReduceLROnPlateau, or one that is stepped between others.
    """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    names = " and ".join(type(one).__qualname__ for one in schedulers)
    if len({id(one) for one in schedulers}) < len(schedulers):
        raise UsageError(f"one scheduler is given twice ({names}): leave it out once")
    plateaus = [place for place, one in enumerate(schedulers) if isinstance(one, ReduceLROnPlateau)]
    if not plateaus or len(schedulers) == 1:
        return _chained(schedulers)
    first, last = plateaus == [0], plateaus == [len(schedulers) - 1]
    if not first and not last:
        raise UsageError(
            f"{names} move one learning rate; beside other schedulers there may be one ReduceLROnPlateau, stepped "
            "before all of them or behind them: give it first or last, in the order of the steps"
        )
    others = schedulers[1:] if first else schedulers[:-1]
    return WithPlateau(schedulers[plateaus[0]], _chained(others), plateau_first=first)


def _chained(schedulers: Sequence[Scheduler]) -> Scheduler:
    from torch.optim.lr_scheduler import ChainedScheduler

    return schedulers[0] if len(schedulers) == 1 else ChainedScheduler(list(schedulers))
