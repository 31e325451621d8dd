"""ReduceLROnPlateau together with a multiplicative schedule (`torch/optim/lr_scheduler.py`): both change one rate."""

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
        count: the number of updates so far; an int32 scalar.
        plateau: the plateau's state. Its ``learning_rate`` is the current rate, after both.
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
    """Multiply an optimizer's rate by a schedule and reduce it by ReduceLROnPlateau, both as in torch.

    torch's StepLR, LinearLR and others multiply the current rate, ``lr · schedule(t + 1) / schedule(t)``, and
    ReduceLROnPlateau bounds the current rate from below: so the rate itself is kept, not a scale of it. In float32
    each step of the schedule rounds it once more; where the schedule is constant, nothing is rounded.

    Args:
        optimizer: maps the rate, a traced scalar, to the transformation.
        learning_rate: the initial rate, including the schedule's first value.
        schedule: maps the number of updates to the factor of the rate; starts from 1, or a warm-up's first factor.
        plateau_first: whether torch steps ReduceLROnPlateau before the schedule; the metric then sees the rate of the
            update, otherwise the next one.
        **options: those of `port.transforms.torch_plateau_step`.

    Returns:
        A transformation whose ``update(gradients, state, params, value=None)`` takes the optimizer's step at the
        current rate, then the schedule's and, if a metric is passed, ReduceLROnPlateau's. A metric that is measured
        after the step is passed separately: ``torch_plateau_step(state.plateau, value, **options)``.

    Raises:
        UsageError: an option that torch rejects too; its subclass UnknownChoice for a mode.
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
    """The factor of one schedule step; 1 once the schedule has reached 0, which no factor brings back."""
    value = jnp.asarray(schedule(before), float)
    return jnp.where(value == 0, 1.0, schedule(after) / jnp.where(value == 0, 1.0, value))
