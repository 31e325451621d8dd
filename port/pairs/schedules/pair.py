"""Schedule pairs, and the twins of live torch schedulers with their position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from port.pairs.expression import Expression, Function


@dataclass(frozen=True)
class Scheduled:
    """The twin of a scheduler, for one of the optimizer's groups.

    Attributes:
        learning_rate: expression of the schedule, a function from the scheduler's steps so far to the rate; a number if
            the rate is constant.
        momentum: the same for the momentum, or Adam's b1; None if the scheduler does not change it.
        count: steps that the scheduler has taken; the schedule's count is restored to it.
    """

    learning_rate: Expression | float
    momentum: Expression | None
    count: int


@dataclass(frozen=True)
class Plateau:
    """A ReduceLROnPlateau, for one of the optimizer's groups.

    Attributes:
        learning_rate: the group's present rate.
        options: those of `port.transforms.reduce_on_torch_plateau` that differ from torch's defaults.
        best: the best metric so far.
        num_bad_epochs: number of consecutive metrics without improvement.
        cooldown_counter: number of metrics left before bad ones count again.
    """

    learning_rate: float
    options: dict[str, Any]
    best: float
    num_bad_epochs: int
    cooldown_counter: int


def _no_momentum(scheduler: Any, group: int) -> Expression | None:
    return None


def _as_it_is(scheduler: Any) -> None:
    pass


@dataclass(frozen=True)
class SchedulePair:
    """A torch scheduler and its optax schedule.

    Attributes:
        torch: torch's class, by its public name; ``"__main__.Warm"`` for a notebook's.
        learning_rate: from the scheduler, the group's number and the base rate to the schedule, a function from the
            scheduler's steps so far to the rate; a number if it is constant; None if it has no formula and must be
            tabulated.
        momentum: from the scheduler and the group's number to the momentum's schedule; None if it does not change it.
        multiplies: whether a step only multiplies the group's rate by a factor that depends on the step alone; the
            schedule of several such schedulers is their product.
        sets: whether the rate after a step depends only on the step, not on the previous rate.
        continues: whether it starts from the present rate, not from the group's initial rate.
        keys: keys of its state dict that torch's base class lacks; None if unknown, and state dicts are not checked.
        optional: keys that depend on options or on the version of torch.
        lacks: why a scheduler cannot be built from its state dict; None if it can.
        rewind: resets its state, other than torch's own counts, to before its first step.
        example: optimizer → an example call, which the cheat sheet shows.
    """

    torch: str
    learning_rate: Callable[[Any, int, float], Expression | float | None]
    momentum: Callable[[Any, int], Expression | None] = _no_momentum
    multiplies: bool = False
    sets: bool = False
    continues: bool = False
    keys: tuple[str, ...] | None = None
    optional: tuple[str, ...] = ()
    lacks: str | None = None
    rewind: Callable[[Any], None] = _as_it_is
    example: Function | None = None
