"""Schedules of schedules: SequentialLR, ChainedScheduler (`torch/optim/lr_scheduler.py`), and stepping per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

import jax
import jax.numpy as jnp
import optax

from port.errors import UsageError
from port.transforms.schedules.count import Schedule


def sequential_lr(schedules: Sequence[Schedule], milestones: Sequence[int]) -> Schedule:
    """SequentialLR: one schedule after another, each counting from 0 at its milestone.

    As `optax.join_schedules`, but no schedule is evaluated outside its own interval, which one with an end
    (`one_cycle_lr`, `tabulated`) would reject.

    Raises:
        UsageError: the number of milestones is not one less than that of schedules, or they are not rising.
    """
    if len(milestones) != len(schedules) - 1 or list(milestones) != sorted(milestones):
        raise UsageError(f"{len(schedules)} schedules take {len(schedules) - 1} rising milestones, got {milestones}")
    lengths = [end - start for start, end in zip([0, *milestones], milestones, strict=False)]
    held = [_held(schedule, length) for schedule, length in zip(schedules, [*lengths, None], strict=True)]
    joined: Schedule = optax.join_schedules(held, milestones)
    return joined


def _held(schedule: Schedule, length: int | None) -> Schedule:
    last = None if length is None else max(length - 1, 0)
    return lambda count: schedule(jnp.clip(jnp.asarray(count), 0, last))


def chained_lr(schedules: Sequence[Schedule]) -> Schedule:
    """ChainedScheduler of schedulers that multiply the rate (see `decay`): their product.

    The first one has the base rate, the others the base 1. Schedulers that set the rate or add to it have no such
    product: use `tabulated`.

    Raises:
        UsageError: no schedule.
    """
    if not schedules:
        raise UsageError("chained_lr takes at least one schedule, got none")
    return lambda count: reduce(mul, [schedule(count) for schedule in schedules])


def per_epoch(schedule: Schedule, steps_per_epoch: int) -> Schedule:
    """A schedule whose torch scheduler is stepped once per epoch: its value at ``count // steps_per_epoch``.

    Args:
        schedule: the schedule, in epochs.
        steps_per_epoch: updates (not micro-batches) in an epoch.

    Raises:
        UsageError: ``steps_per_epoch`` is below 1.
    """
    if steps_per_epoch < 1:
        raise UsageError(f"steps_per_epoch must be at least 1, got {steps_per_epoch}")

    def stepped(count: jax.typing.ArrayLike) -> jax.Array:
        # A Python number stays one: so a schedule with an end rejects it at once.
        return schedule(count // steps_per_epoch)  # type: ignore[operator]

    return stepped
