"""What a pair of a schedule is, and what is said of a torch scheduler: its optax twin and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from port.pairs.expression import Expression, Function


@dataclass(frozen=True)
class Scheduled:
    """The twin of a scheduler, for one of the optimizer's groups.

    Attributes:
        learning_rate: an expression of the schedule: from the scheduler's steps so far to the rate; a number where the
            rate stays.
        momentum: the same for the momentum, or Adam's b1; None if the scheduler leaves it alone.
        count: how many steps the scheduler has taken; what the schedule's count is restored to.
    """

    learning_rate: Expression | float
    momentum: Expression | None
    count: int


@dataclass(frozen=True)
class Plateau:
    """A ReduceLROnPlateau, for one of the optimizer's groups.

    Attributes:
        learning_rate: the group's present rate.
        options: those of `port.transforms.reduce_on_torch_plateau`; what has torch's default is left out.
        best: the best metric so far.
        num_bad_epochs: how many metrics in a row were no better.
        cooldown_counter: how many metrics are still to come before bad ones count again.
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
            scheduler's steps so far to the rate; a number where it stays; None where it has no formula, and is
            tabulated.
        momentum: from the scheduler and the group's number to the momentum's schedule; None if it is left alone.
        multiplies: whether all that it does in a step is to multiply the rate that the group has, by what depends on
            the step alone: of several such the product is the schedule.
        sets: whether the rate behind a step depends on the step alone, not on the rate before it.
        continues: whether it begins from the rate that it finds, not from the group's first.
        keys: what its state dict has and that of torch's base class has not; None where that is not known, and
            nothing of a state dict is checked.
        optional: what it has under some options, or in some versions of torch.
        lacks: why a scheduler cannot be made of its state dict; None if it can.
        rewind: brings what it keeps beside torch's own counts back to before its first step.
        example: optimizer → a call that makes one, which the cheat sheet shows.
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
