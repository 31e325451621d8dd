"""What a torch scheduler's state dict holds. It names no class: its keys tell whose it is."""

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
_NO_CLASSES = "it does not say the classes of the schedulers that are held"


@dataclass(frozen=True)
class SchedulerStateKeys:
    """A class of scheduler and the keys of its state dict.

    Attributes:
        torch: torch's class, by its public name.
        keys: what it has and the base class has not; None where that is not known.
        optional: what it has under some options, or in some versions of torch.
        lacks: why a scheduler cannot be made of its state dict; None if it can.
    """

    torch: str
    keys: frozenset[str] | None
    optional: frozenset[str] = frozenset()
    lacks: str | None = None

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.torch.rpartition(".")[2]

    def lacking(self, state: Mapping[str, Any]) -> str | None:
        """What keeps a scheduler of this class from being made of a state dict; None if nothing does."""
        return NO_FUNCTIONS if state.get("_scale_fn_custom") is not None else self.lacks

    def missing(self, keys: Collection[str]) -> list[str]:
        """What a state dict of these keys lacks for this class."""
        return [] if self.keys is None else sorted(self.keys - set(keys))

    def strange(self, keys: Collection[str]) -> list[str]:
        """What this class does not keep."""
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
"""Those that no pair speaks of: they follow a metric, or hold others."""

KEPT = (*map(_of_pair, SCHEDULES), *_FOLLOWING_OR_HOLDING)
"""Those of torch's own schedulers."""


def all_kept() -> tuple[SchedulerStateKeys, ...]:
    """Of every scheduler there is, the registered ones first."""
    return (*map(_of_pair, all_schedules()), *_FOLLOWING_OR_HOLDING)


def kept_by(cls: type) -> SchedulerStateKeys | None:
    """What a class of scheduler keeps; None of one that is not known."""
    return next((kept for kept in all_kept() if is_class(cls, kept.torch)), None)


def classes_that_keep(keys: Collection[str]) -> list[SchedulerStateKeys]:
    """The classes whose state dict is known to have these keys."""
    known = [kept for kept in all_kept() if kept.keys is not None]
    return [kept for kept in known if not kept.missing(keys) and not kept.strange(keys)]
