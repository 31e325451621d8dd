"""Reads the scheduler in a torch training checkpoint."""

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
"""ReduceLROnPlateau's counts, beside its steps."""
LENGTHS = ("T_0", "T_mult")
"""Options of CosineAnnealingWarmRestarts that only its constructor checks: with invalid ones, a period never ends."""


@dataclass(frozen=True)
class SavedScheduler:
    """The scheduler of a training checkpoint.

    Attributes:
        scheduler: attached to the optimizer, at its position. Nothing was stepped.
        place: its key in the checkpoint.
    """

    scheduler: Scheduler
    place: str


def scheduler_places(content: Any) -> dict[str, list[str]]:
    """Keys of a checkpoint that seem to be a scheduler's state dict → the names of the classes with such a state."""
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
    """Read the scheduler of a training checkpoint, attached to the optimizer that was read from it.

    A custom function of CyclicLR leaves no trace in a state dict: it is taken for torch's own, and rejected only if the
    rate contradicts that.

    Args:
        path: the file, for messages.
        content: its contents, from `port.weights.torch_files.read_saved`.
        scheduler: its class, from torch.optim or of a registered pair.
        optimizer: of the same checkpoint: its groups have the scheduler's current rates.
        key: the key of the scheduler's state dict in the checkpoint, if it has several.

    Raises:
        BrokenWeights: it has no scheduler.
        UsageError: an unknown class; one whose state dict is incomplete; several schedulers; an optimizer whose rate is
            not the scheduler's.
        WeightsMismatch: the state of another class, or beside other groups.
    """
    kept = kept_by(scheduler) if isinstance(scheduler, type) else None
    if kept is None:
        known = ", ".join(each.name for each in all_kept() if each.lacks is None)
        passed = name_of(scheduler) if isinstance(scheduler, type) else described(scheduler)
        raise UsageError(f"no scheduler is known for {passed}; there are: {known}")
    place = _find(path, content, key)
    saved, where = {str(name): value for name, value in content.items()}[place], f"{path}: {place}"
    if (lacks := kept.lacking(saved)) is not None:
        raise UsageError(
            f"{where}: a {kept.name} cannot be made of its state dict: {lacks}. Make the optimizer and the "
            "scheduler in Python, load both state dicts into them, and call port.to_optax(optimizer, "
            "scheduler=scheduler, …)"
        )
    _check(where, saved, kept, len(optimizer.param_groups))
    # Not by its __init__, which makes a first step and requires what is in the state; CyclicLR's loading looks for what
    # that has set.
    made = scheduler.__new__(scheduler)
    vars(made).update(saved, optimizer=optimizer)
    try:
        made.load_state_dict(dict(saved))
        _read(made)
    except PortError as error:
        raise UsageError(f"{where}: {error}") from error
    except Exception as error:  # there may be anything in place of a number
        problem = f"{type(error).__name__}: {error}"
        raise WeightsMismatch(
            f"{where}: no {kept.name} can be made of it and of the optimizer's groups: {problem}"
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
            f"{path} has no scheduler's state dict (of {', '.join(map(str, content))}); save it with the model and "
            "the optimizer: torch.save({'scheduler': scheduler.state_dict(), …}, …)"
        )
    if len(places) > 1:
        raise UsageError(f"{path} has several schedulers: choose one: {', '.join(places)}")
    return places[0]


def _check(where: str, saved: Saved[str, Any], kept: SchedulerStateKeys, groups: int) -> None:
    missing, strange = kept.missing(saved), kept.strange(saved)
    if missing or strange:
        own = " and ".join(each.torch for each in classes_that_keep(saved))
        held = ", ".join(strange) or ", ".join(sorted(map(str, saved)))
        raise WeightsMismatch(
            f"{where}: it has {held}, and {kept.torch} stores {', '.join(sorted(kept.keys or ()))}: it is the state "
            f"of {own or 'another class'}"
        )
    for name in ("last_epoch", *(counter for counter in COUNTERS if counter in saved)):
        count = saved.get(name)
        if not isinstance(count, int) or not 0 <= count <= LARGEST:
            raise WeightsMismatch(f"{where}: its {name} must be a number of steps, got {shown(count)}")
    for name in LENGTHS:
        length = saved.get(name, 1)
        if not isinstance(length, int) or not 1 <= length <= LARGEST:
            raise WeightsMismatch(f"{where}: its {name} must be a whole number of at least 1, got {shown(length)}")
    for name in ("base_lrs", "max_lrs", "min_lrs"):
        if name in saved and (not isinstance(saved[name], list) or len(saved[name]) != groups):
            raise WeightsMismatch(
                f"{where}: its {name} must be one for each of the optimizer's {groups} groups, got "
                f"{shown(saved[name])}: it is the scheduler of another optimizer"
            )


def _read(scheduler: Any) -> None:
    """Evaluate each group's schedule once, so that invalid values are rejected here."""
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
