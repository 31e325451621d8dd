"""ReduceLROnPlateau (`torch/optim/lr_scheduler.py`): reduces the learning rate when a metric has stopped improving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from port.errors import UnknownChoice, UsageError


class TorchPlateauState(NamedTuple):
    """The state of `reduce_on_torch_plateau`: scalars, and the optimizer's own state.

    Attributes:
        learning_rate: the current rate: float64 under x64, float32 otherwise.
        best: the best metric so far (±inf before the first), of the same type.
        num_bad_epochs: how many metrics in a row were no better; int32.
        cooldown_counter: how many more metrics before bad ones count again; int32.
        inner_state: the optimizer's state.
    """

    learning_rate: jax.Array
    best: jax.Array
    num_bad_epochs: jax.Array
    cooldown_counter: jax.Array
    inner_state: optax.OptState


def reduce_on_torch_plateau(
    optimizer: Callable[[jax.Array], optax.GradientTransformation],
    learning_rate: jax.typing.ArrayLike,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """Reduce an optimizer's learning rate as torch's ReduceLROnPlateau does.

    `optax.contrib.reduce_on_plateau` scales the finished update, averages the metric over a fixed number of steps,
    supports a rising metric only as its negative, counts metrics during the cooldown as bad ones, and bounds the scale
    rather than the rate.

    Args:
        optimizer: maps the rate, a traced scalar, to the transformation.
        learning_rate: the initial rate.
        **options: those of `torch_plateau_step`.

    Returns:
        A transformation whose ``update(gradients, state, params, value=None)`` takes the optimizer's step at the
        current rate and then, if a metric is passed, ``scheduler.step(value)``. A metric that is measured after the
        step, on its new parameters, is passed separately: ``torch_plateau_step(state, value, **options)``.

    Raises:
        UsageError: an option that torch rejects too; its subclass UnknownChoice for a mode.
    """
    checked = _Options(**options)

    def init(params: optax.Params) -> TorchPlateauState:
        rate = jnp.asarray(learning_rate, float)
        return TorchPlateauState(
            learning_rate=rate,
            best=jnp.asarray(jnp.inf if checked.mode == "min" else -jnp.inf, float),
            num_bad_epochs=jnp.zeros([], jnp.int32),
            cooldown_counter=jnp.zeros([], jnp.int32),
            inner_state=optimizer(rate).init(params),
        )

    def update(
        updates: optax.Updates,
        state: TorchPlateauState,
        params: optax.Params | None = None,
        *,
        value: jax.typing.ArrayLike | None = None,
        **extra: Any,
    ) -> tuple[optax.Updates, TorchPlateauState]:
        inner = optax.with_extra_args_support(optimizer(state.learning_rate))
        given = extra if value is None else {"value": value, **extra}
        updates, inner_state = inner.update(updates, state.inner_state, params, **given)
        state = state._replace(inner_state=inner_state)
        return updates, state if value is None else torch_plateau_step(state, value, **options)

    return optax.GradientTransformationExtraArgs(init, update)


def torch_plateau_step(state: TorchPlateauState, value: jax.typing.ArrayLike, **options: Any) -> TorchPlateauState:
    """``ReduceLROnPlateau.step(value)``.

    Args:
        state: the state before.
        value: the metric, a scalar. NaN is never better.
        **options: torch's, with torch's defaults: ``mode="min"`` or ``"max"``, ``factor=0.1``, ``patience=10``,
            ``threshold=1e-4``, ``threshold_mode="rel"`` or ``"abs"``, ``cooldown=0``, ``min_lr=0``, ``eps=1e-8``.

    Raises:
        UsageError: as `reduce_on_torch_plateau`.
    """
    option = _Options(**options)
    value = jnp.asarray(value, state.best.dtype)
    better = option.is_better(value, state.best)
    # Checked both before and after the cooldown, as in torch: a metric within it never counts as bad.
    cooling = state.cooldown_counter > 0
    bad = jnp.where(better | cooling, 0, state.num_bad_epochs + 1)
    cooldown = jnp.where(cooling, state.cooldown_counter - 1, state.cooldown_counter)
    reduce = bad > option.patience
    lower = jnp.maximum(state.learning_rate * option.factor, option.min_lr)
    lowered = reduce & (state.learning_rate - lower > option.eps)
    return state._replace(
        learning_rate=jnp.where(lowered, lower, state.learning_rate),
        best=jnp.where(better, value, state.best),
        num_bad_epochs=jnp.where(reduce, 0, bad),
        cooldown_counter=jnp.where(reduce, option.cooldown, cooldown).astype(jnp.int32),
    )


class _Options:
    def __init__(
        self,
        *,
        mode: str = "min",
        factor: jax.typing.ArrayLike = 0.1,
        patience: jax.typing.ArrayLike = 10,
        threshold: jax.typing.ArrayLike = 1e-4,
        threshold_mode: str = "rel",
        cooldown: jax.typing.ArrayLike = 0,
        min_lr: jax.typing.ArrayLike = 0.0,
        eps: jax.typing.ArrayLike = 1e-8,
    ) -> None:
        if mode not in ("min", "max"):
            raise UnknownChoice("mode of a plateau", mode, ("min", "max"))
        if threshold_mode not in ("rel", "abs"):
            raise UnknownChoice("threshold_mode of a plateau", threshold_mode, ("rel", "abs"))
        if isinstance(factor, (int, float)) and factor >= 1.0:
            raise UsageError(f"the factor of a plateau must be below 1, got {factor}")
        self.mode, self.threshold_mode, self.threshold = mode, threshold_mode, threshold
        self.factor, self.min_lr, self.eps = factor, min_lr, eps
        self.patience, self.cooldown = patience, cooldown

    def is_better(self, value: jax.Array, best: jax.Array) -> jax.Array:
        if self.mode == "min":
            return value < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return value > (best * (1.0 + self.threshold) if self.threshold_mode == "rel" else best + self.threshold)
