"""Sets torch's schedulers to the positions of an optax state's schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from port.errors import UsageError, WeightsMismatch
from port.optim.parts import Partition
from port.optim.together import WithPlateau
from port.pairs.schedules import check_place, place, place_plateau

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


@dataclass(frozen=True)
class Placement:
    """The target position of one optimizer's scheduler.

    Attributes:
        schedule: the scheduler that counts steps; None if there is none, or its position is not to be set.
        count: its number of steps.
        plateau: the ReduceLROnPlateau; None if there is none.
        rates: the number of a torch group → its rate, if the plateau's state has it.
        counts: the plateau's own counts, by attribute.
    """

    schedule: Any
    count: int
    plateau: Any
    rates: dict[int, float]
    counts: dict[str, Any]

    def check(self) -> None:
        """Check that `make` will succeed.

        Raises:
            UsageError: the schedule cannot be set to an earlier position, or not so far.
        """
        if self.schedule is not None:
            check_place(self.schedule, self.count)

    def make(self) -> None:
        """Set the positions: first the schedule's, as the plateau's rates are the result of both."""
        if self.schedule is not None:
            place(self.schedule, self.count)
        if self.plateau is not None:
            groups = range(len(self.plateau.optimizer.param_groups))
            place_plateau(self.plateau, [self.rates.get(index) for index in groups], **self.counts)


def placement_of(
    scheduler: Scheduler | WithPlateau | None, groups: Mapping[int, Sequence[Partition]], steps_per_epoch: int | None
) -> Placement:
    """Determine the position of one optimizer's scheduler from the state.

    Args:
        scheduler: torch's scheduler; see `port.optim.together.together`.
        groups: the number of each trained torch group → the parts of the state that belong to it.
        steps_per_epoch: updates between two steps of the scheduler.

    Raises:
        UsageError: the state has a ReduceLROnPlateau, but none is passed; a scheduler is passed that is not in the
            state; schedules with different positions.
        WeightsMismatch: a ReduceLROnPlateau with several positions, or several rates for one group.
    """
    schedule, plateau = _apart(scheduler)
    places = {part.place for parts in groups.values() for part in parts if part.place is not None}
    plateau_states = {index: [part.rates for part in parts if part.rates] for index, parts in groups.items()}
    known = [state for own in plateau_states.values() for state in own]
    if known and plateau is None:
        raise UsageError(
            "the state has the current rate of a ReduceLROnPlateau, "
            f"{', '.join(f'{rate:g}' for rate in sorted({state['learning_rate'] for state in known}))}: pass torch's "
            "as scheduler=, fresh or loaded, and it is set to the state's position"
        )
    if plateau is not None and not known:
        raise UsageError("the state was made without a ReduceLROnPlateau and has nothing about one: leave it out")
    if schedule is not None and not places:
        raise UsageError(
            f"the state was made without a schedule and has no position for the {type(schedule).__name__}: leave "
            "it out, and set it with its own load_state_dict"
        )
    if schedule is not None and len(places) > 1:
        raise UsageError(f"the groups' schedules have different positions: {sorted(places)}")
    counts = [{key: value for key, value in state.items() if key != "learning_rate"} for state in known]
    if any(other != counts[0] for other in counts):
        raise WeightsMismatch(f"the state has one ReduceLROnPlateau with several positions: {counts}")
    rates = {
        index: _one_rate([state["learning_rate"] for state in own], index)
        for index, own in plateau_states.items()
        if own
    }
    count = 0 if schedule is None else places.pop() // (steps_per_epoch or 1)
    return Placement(schedule, count, plateau, rates, counts[0] if counts else {})


def _apart(scheduler: Any) -> tuple[Any, Any]:
    """Separate the scheduler that counts steps from the one that follows a metric."""
    if isinstance(scheduler, WithPlateau):
        return scheduler.scheduler, scheduler.plateau
    return (None, scheduler) if hasattr(scheduler, "num_bad_epochs") else (scheduler, None)


def _one_rate(rates: list[float], index: int) -> float:
    if len(set(rates)) > 1:
        raise WeightsMismatch(f"torch's group {index} has one rate, the state has {sorted(set(rates))} for its parts")
    return rates[0]
