"""The scheduler in a torch training checkpoint."""

from __future__ import annotations

from collections.abc import Mapping as Saved
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import BrokenWeights, PortError, UsageError, WeightsMismatch, described
from port.optim.options import shown
from port.optim.state_dicts import LARGEST
from port.pairs.pair import name_of
from port.pairs.schedules import plateau_of, schedule_of
from port.pairs.schedules.kept import SchedulerStateKeys, all_kept, classes_that_keep, kept_by

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


COUNTERS = ("num_bad_epochs", "cooldown_counter")
"""What ReduceLROnPlateau counts, beside its steps."""
LENGTHS = ("T_0", "T_mult")
"""What CosineAnnealingWarmRestarts takes as torch's constructor does alone: without, its periods have no end."""


@dataclass(frozen=True)
class SavedScheduler:
    """What a training checkpoint says of its scheduler.

    Attributes:
        scheduler: on the optimizer, where it stood. Nothing was stepped.
        place: where in the checkpoint it is.
    """

    scheduler: Scheduler
    place: str


def scheduler_places(content: Any) -> dict[str, list[str]]:
    """Where in a checkpoint a scheduler's state dict seems to be → the names of the classes that keep such a one."""
    if not isinstance(content, Saved):
        return {}
    return {
        str(place): [kept.torch for kept in classes_that_keep(value)]
        for place, value in content.items()
        if _is_scheduler(value)
    }


def read_scheduler(
    path: Path | str,
    content: Any,
    scheduler: Any,
    optimizer: torch.optim.Optimizer,
    *,
    key: str | None = None,
) -> SavedScheduler:
    """The scheduler of a training checkpoint, on the optimizer that was read from it.

    A CyclicLR's function of one's own leaves no trace in a state dict: it is taken for torch's own, and refused only
    where the rate tells.

    Args:
        path: the file, for messages.
        content: what is in it, as `port.weights.torch_files.read_saved` gives it.
        scheduler: its class, one of torch.optim's or of a registered pair.
        optimizer: of the same checkpoint: the rates in its groups are those that the scheduler has brought them to.
        key: where in the checkpoint the scheduler's state dict is, if it holds several.

    Raises:
        BrokenWeights: no scheduler in it.
        UsageError: no class that is known; one whose state dict does not hold all of it; several schedulers; an
            optimizer whose rate is not the scheduler's.
        WeightsMismatch: the state of another class, or beside other groups.
    """
    kept = kept_by(scheduler) if isinstance(scheduler, type) else None
    if kept is None:
        known = ", ".join(each.name for each in all_kept() if each.lacks is None)
        given = name_of(scheduler) if isinstance(scheduler, type) else described(scheduler)
        raise UsageError(f"no scheduler is known for {given}; there are: {known}")
    place = _find(path, content, key)
    saved, where = {str(name): value for name, value in content.items()}[place], f"{path}: {place}"
    if (lacks := kept.lacking(saved)) is not None:
        raise UsageError(
            f"{where}: a {kept.name} cannot be made of its state dict: {lacks}. Make the optimizer and the "
            "scheduler in Python, load both state dicts into them, and call port.to_optax(optimizer, "
            "scheduler=scheduler, …)"
        )
    _check(where, saved, kept, len(optimizer.param_groups))
    # Not by its __init__, which takes a first step and asks for what is in the state; CyclicLR's loading looks for
    # what that has set.
    made = scheduler.__new__(scheduler)
    vars(made).update(saved, optimizer=optimizer)
    try:
        made.load_state_dict(dict(saved))
        _read(made)
    except PortError as error:
        raise UsageError(f"{where}: {error}") from error
    except Exception as error:  # Whatever there may be in the place of a number.
        told = f"{type(error).__name__}: {error}"
        raise WeightsMismatch(
            f"{where}: no {kept.name} can be made of it and of the optimizer's groups: {told}"
        ) from error
    return SavedScheduler(made, place)


def _is_scheduler(value: Any) -> bool:
    return isinstance(value, Saved) and bool({"last_epoch", "_schedulers"} & set(value))


def _find(path: Path | str, content: Any, key: str | None) -> str:
    places = list(scheduler_places(content))
    if key is not None:
        if key not in places:
            held = ", ".join(map(str, content))
            raise UsageError(f"{path} has no scheduler's state dict at {key!r}; it has {held}")
        return key
    if not places:
        raise BrokenWeights(
            f"{path} holds no scheduler's state dict (of {', '.join(map(str, content))}); save it with the model and "
            "the optimizer: torch.save({'scheduler': scheduler.state_dict(), …}, …)"
        )
    if len(places) > 1:
        raise UsageError(f"{path} holds several schedulers: say which: {', '.join(places)}")
    return places[0]


def _check(where: str, saved: Saved[str, Any], kept: SchedulerStateKeys, groups: int) -> None:
    missing, strange = kept.missing(saved), kept.strange(saved)
    if missing or strange:
        own = " and ".join(each.torch for each in classes_that_keep(saved))
        held = ", ".join(strange) or ", ".join(sorted(map(str, saved)))
        raise WeightsMismatch(
            f"{where}: it holds {held}, and {kept.torch} keeps {', '.join(sorted(kept.keys or ()))}: it is the state "
            f"of {own or 'another class'}"
        )
    for name in ("last_epoch", *(counter for counter in COUNTERS if counter in saved)):
        count = saved.get(name)
        if not isinstance(count, int) or not 0 <= count <= LARGEST:
            raise WeightsMismatch(f"{where}: its {name} is to be a number of steps, got {shown(count)}")
    for name in LENGTHS:
        length = saved.get(name, 1)
        if not isinstance(length, int) or not 1 <= length <= LARGEST:
            raise WeightsMismatch(f"{where}: its {name} is to be a whole number of at least 1, got {shown(length)}")
    for name in ("base_lrs", "max_lrs", "min_lrs"):
        if name in saved and (not isinstance(saved[name], list) or len(saved[name]) != groups):
            raise WeightsMismatch(
                f"{where}: its {name} are to be one for each of the optimizer's {groups} groups, got "
                f"{shown(saved[name])}: it is the scheduler of another optimizer"
            )


def _read(scheduler: Any) -> None:
    """Say of each group what it will do, and do it once: so what cannot be right is refused here."""
    import jax
    import jax.numpy as jnp

    from port.transforms import TorchPlateauState, torch_plateau_step

    for group in range(len(scheduler.optimizer.param_groups)):
        if not hasattr(scheduler, "num_bad_epochs"):
            schedule_of(scheduler, group)
            continue
        plateau = plateau_of(scheduler, group)
        with jax.enable_x64(True):
            state = TorchPlateauState(
                learning_rate=jnp.asarray(plateau.learning_rate),
                best=jnp.asarray(plateau.best),
                num_bad_epochs=jnp.asarray(plateau.num_bad_epochs),
                cooldown_counter=jnp.asarray(plateau.cooldown_counter),
                inner_state=(),
            )
            torch_plateau_step(state, 0.0, **plateau.options)
