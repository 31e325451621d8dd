"""Where an optax state's schedules stand, and torch's schedulers brought there."""

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
    """Where one optimizer's scheduler is to stand.

    Attributes:
        schedule: what counts steps; None where nothing does, or its place is not to be set.
        count: the steps that it is to have taken.
        plateau: the ReduceLROnPlateau; None where there is none.
        rates: the number of a torch group → its rate, where the plateau's state says it.
        counts: the plateau's own, by its attributes.
    """

    schedule: Any
    count: int
    plateau: Any
    rates: dict[int, float]
    counts: dict[str, Any]

    def check(self) -> None:
        """See that `make` will do.

        Raises:
            UsageError: the schedule cannot go back, or not so far.
        """
        if self.schedule is not None:
            check_place(self.schedule, self.count)

    def make(self) -> None:
        """Bring them there: first the schedule, as the plateau's rates are those that both have made."""
        if self.schedule is not None:
            place(self.schedule, self.count)
        if self.plateau is not None:
            groups = range(len(self.plateau.optimizer.param_groups))
            place_plateau(self.plateau, [self.rates.get(index) for index in groups], **self.counts)


def placement_of(
    scheduler: Scheduler | WithPlateau | None, groups: Mapping[int, Sequence[Partition]], steps_per_epoch: int | None
) -> Placement:
    """Where the state has one optimizer's scheduler stand.

    Args:
        scheduler: torch's; see `port.optim.together.together`.
        groups: the number of each of torch's groups that is trained → the parts of the state that are its.
        steps_per_epoch: updates between two steps of the scheduler.

    Raises:
        UsageError: the state has a ReduceLROnPlateau, and no such scheduler is given; a scheduler is given of which
            the state has nothing; schedules that stand at different places.
        WeightsMismatch: a ReduceLROnPlateau that stands at several places, or has several rates for one group.
    """
    schedule, plateau = _apart(scheduler)
    places = {part.place for parts in groups.values() for part in parts if part.place is not None}
    stands = {index: [part.rates for part in parts if part.rates] for index, parts in groups.items()}
    known = [stand for own in stands.values() for stand in own]
    if known and plateau is None:
        raise UsageError(
            "the state holds the rate that a ReduceLROnPlateau has come to, "
            f"{', '.join(f'{rate:g}' for rate in sorted({stand['learning_rate'] for stand in known}))}: give torch's "
            "as scheduler=, fresh or loaded, and it is set to where the state stands"
        )
    if plateau is not None and not known:
        raise UsageError("the state was made without a ReduceLROnPlateau and says nothing of one: leave it out")
    if schedule is not None and not places:
        raise UsageError(
            f"the state was made without a schedule and does not say where the {type(schedule).__name__} stands: leave "
            "it out, and set it with its own load_state_dict"
        )
    if schedule is not None and len(places) > 1:
        raise UsageError(f"the groups' schedules stand at different places: {sorted(places)}")
    counts = [{key: value for key, value in stand.items() if key != "learning_rate"} for stand in known]
    if any(other != counts[0] for other in counts):
        raise WeightsMismatch(f"the state has one ReduceLROnPlateau at several places: {counts}")
    rates = {index: _one_rate([stand["learning_rate"] for stand in own], index) for index, own in stands.items() if own}
    count = 0 if schedule is None else places.pop() // (steps_per_epoch or 1)
    return Placement(schedule, count, plateau, rates, counts[0] if counts else {})


def _apart(scheduler: Any) -> tuple[Any, Any]:
    """What counts steps, and what follows a metric."""
    if isinstance(scheduler, WithPlateau):
        return scheduler.scheduler, scheduler.plateau
    return (None, scheduler) if hasattr(scheduler, "num_bad_epochs") else (scheduler, None)


def _one_rate(rates: list[float], index: int) -> float:
    if len(set(rates)) > 1:
        raise WeightsMismatch(f"torch's group {index} has one rate, the state has {sorted(set(rates))} for its parts")
    return rates[0]
