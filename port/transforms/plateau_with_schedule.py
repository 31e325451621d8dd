"""ReduceLROnPlateau beside a schedule that multiplies (`torch/optim/lr_scheduler.py`): both move the present rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.transforms.plateau import TorchPlateauState, reduce_on_torch_plateau, torch_plateau_step
from port.transforms.schedules.count import Schedule


class ScheduledPlateauState(NamedTuple):
    """The state of `scheduled_plateau`.

    Attributes:
        count: how many updates there were; an int32 scalar.
        plateau: the plateau's state. Its ``learning_rate`` is the present rate, with all that both have made of it.
    """

    count: jax.Array  # type: ignore[assignment]  # tuple has a method of this name
    plateau: TorchPlateauState


def scheduled_plateau(
    optimizer: Callable[[jax.Array], optax.GradientTransformation],
    learning_rate: jax.typing.ArrayLike,
    schedule: Schedule,
    *,
    plateau_first: bool = False,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """An optimizer whose rate a schedule multiplies and ReduceLROnPlateau lowers, both as torch has it.

    torch's StepLR, LinearLR and their like multiply the rate that they find, ``lr · schedule(t + 1) / schedule(t)``,
    and ReduceLROnPlateau bounds the rate that it finds from below: so the present rate is kept, not a scale of it. In
    float32 each step of the schedule rounds it once more; where the schedule stands still, nothing is rounded.

    Args:
        optimizer: from the rate, a traced scalar, to the transformation.
        learning_rate: the first rate, with the schedule's first value in it.
        schedule: what the rate is multiplied by, of the updates so far; it begins from 1, or what a warm-up makes of 1.
        plateau_first: whether torch steps ReduceLROnPlateau before the schedule; the metric is then met by the rate
            that the update was made with, otherwise by the next one.
        **options: those of `port.transforms.torch_plateau_step`.

    Returns:
        a transformation whose ``update(gradients, state, params, value=None)`` takes the optimizer's step at the
        present rate, then the schedule's and, if a metric is given, ReduceLROnPlateau's. A metric that is measured
        behind the step is given by itself: ``torch_plateau_step(state.plateau, value, **options)``.

    Raises:
        UsageError: an option that torch refuses too; its subclass UnknownChoice of a mode.
    """
    plateau = reduce_on_torch_plateau(optimizer, learning_rate, **options)

    def init(params: optax.Params) -> ScheduledPlateauState:
        return ScheduledPlateauState(jnp.zeros([], jnp.int32), plateau.init(params))

    def update(
        updates: optax.Updates,
        state: ScheduledPlateauState,
        params: optax.Params | None = None,
        *,
        value: jax.typing.ArrayLike | None = None,
        **extra: Any,
    ) -> tuple[optax.Updates, ScheduledPlateauState]:
        updates, stepped = plateau.update(updates, state.plateau, params, **extra)
        if value is not None and plateau_first:
            stepped = torch_plateau_step(stepped, value, **options)
        count = optax.safe_increment(state.count)
        stepped = stepped._replace(learning_rate=stepped.learning_rate * _ratio(schedule, state.count, count))
        if value is not None and not plateau_first:
            stepped = torch_plateau_step(stepped, value, **options)
        return updates, ScheduledPlateauState(count, stepped)

    return optax.GradientTransformationExtraArgs(init, update)


def _ratio(schedule: Schedule, before: jax.Array, after: jax.Array) -> jax.Array:
    """What a step of the schedule multiplies by; 1 where it has come to 0, which nothing brings back."""
    value = jnp.asarray(schedule(before), float)
    return jnp.where(value == 0, 1.0, schedule(after) / jnp.where(value == 0, 1.0, value))
