"""Keys of torch schedulers' state dicts, which identify the class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from port.pairs.pair import is_class
from port.pairs.schedules.formulas import NO_FUNCTIONS, SCHEDULES
from port.pairs.schedules.known import all_schedules
from port.pairs.schedules.pair import SchedulePair

_COMMON = frozenset(
    {"base_lrs", "last_epoch", "verbose", "_step_count", "_last_lr", "_get_lr_called_within_step", "_is_initial"}
)
_NO_CLASSES = "it does not contain the classes of the inner schedulers"


@dataclass(frozen=True)
class SchedulerStateKeys:
    """A scheduler class and the keys of its state dict.

    Attributes:
        torch: torch's class, by its public name.
        keys: the keys that the base class lacks; None if unknown.
        optional: keys that depend on options or on the version of torch.
        lacks: why a scheduler cannot be built from its state dict; None if it can.
    """

    torch: str
    keys: frozenset[str] | None
    optional: frozenset[str] = frozenset()
    lacks: str | None = None

    @property
    def name(self) -> str:
        """The class's name without its module."""
        return self.torch.rpartition(".")[2]

    def lacking(self, state: Mapping[str, Any]) -> str | None:
        """Return why a scheduler of this class cannot be built from a state dict; None if it can."""
        return NO_FUNCTIONS if state.get("_scale_fn_custom") is not None else self.lacks

    def missing(self, keys: Collection[str]) -> list[str]:
        """Return the keys of this class that a state dict lacks."""
        return [] if self.keys is None else sorted(self.keys - set(keys))

    def strange(self, keys: Collection[str]) -> list[str]:
        """Return the keys that this class does not have."""
        return [] if self.keys is None else sorted(set(map(str, keys)) - self.keys - self.optional - _COMMON)


def _of_pair(pair: SchedulePair) -> SchedulerStateKeys:
    return SchedulerStateKeys(
        pair.torch, None if pair.keys is None else frozenset(pair.keys), frozenset(pair.optional), pair.lacks
    )


_FOLLOWING_OR_HOLDING = (
    SchedulerStateKeys(
        "torch.optim.lr_scheduler.ReduceLROnPlateau",
        frozenset(
            {
                *("factor", "min_lrs", "patience", "cooldown", "eps", "mode", "threshold", "threshold_mode"),
                *("best", "num_bad_epochs", "cooldown_counter"),
            }
        ),
        frozenset({"default_min_lr", "mode_worse"}),
    ),
    SchedulerStateKeys(
        "torch.optim.lr_scheduler.SequentialLR", frozenset({"_schedulers", "_milestones"}), lacks=_NO_CLASSES
    ),
    SchedulerStateKeys("torch.optim.lr_scheduler.ChainedScheduler", frozenset({"_schedulers"}), lacks=_NO_CLASSES),
)
"""Schedulers without a pair: they follow a metric, or hold others."""

KEPT = (*map(_of_pair, SCHEDULES), *_FOLLOWING_OR_HOLDING)
"""The keys of torch's own schedulers."""


def all_kept() -> tuple[SchedulerStateKeys, ...]:
    """Return the keys of all schedulers, registered ones first."""
    return (*map(_of_pair, all_schedules()), *_FOLLOWING_OR_HOLDING)


def kept_by(cls: type) -> SchedulerStateKeys | None:
    """Return the keys of a scheduler class; None if it is unknown."""
    return next((kept for kept in all_kept() if is_class(cls, kept.torch)), None)


def classes_that_keep(keys: Collection[str]) -> list[SchedulerStateKeys]:
    """Return the classes whose state dict has these keys."""
    known = [kept for kept in all_kept() if kept.keys is not None]
    return [kept for kept in known if not kept.missing(keys) and not kept.strange(keys)]
