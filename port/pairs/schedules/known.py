"""Looking up the pair of a torch scheduler, registered pairs first."""

from __future__ import annotations

from typing import Any

from port.pairs.pair import is_class
from port.pairs.registered import registered
from port.pairs.schedules.formulas import SCHEDULES
from port.pairs.schedules.pair import SchedulePair


def all_schedules() -> tuple[SchedulePair, ...]:
    """Return all schedule pairs, registered ones first."""
    return (*registered(SchedulePair), *SCHEDULES)


def pair_of_scheduler(scheduler: Any) -> SchedulePair | None:
    """Return the pair of a torch scheduler; None if it holds others, follows a metric, or is of an unknown class."""
    return next((pair for pair in all_schedules() if is_class(type(scheduler), pair.torch)), None)
