"""Which pair speaks of a torch scheduler: the registered ones first."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import is_class
from port.pairs.registered import registered
from port.pairs.schedules.formulas import SCHEDULES
from port.pairs.schedules.pair import SchedulePair


def all_schedules() -> tuple[SchedulePair, ...]:
    """Every schedule's pair there is, the registered ones first."""
    return (*registered(SchedulePair), *SCHEDULES)


def pair_of_scheduler(scheduler: Any) -> SchedulePair | None:
    """The pair of a torch scheduler; None of one that holds others or follows a metric, and of a class not known."""
    return next((pair for pair in all_schedules() if is_class(type(scheduler), pair.torch)), None)
