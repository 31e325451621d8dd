"""Optimizers, schedules and clipping in JAX and Optax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from side_by_side.config import Config


def make_schedule(config: Config, total_steps: int) -> optax.Schedule:
    """The learning rate over the run, a function of the update's count from 0 (O14)."""
    lr = config.learning_rate
    if config.schedule == "cosine":
        return optax.cosine_decay_schedule(lr, decay_steps=total_steps)
    if config.schedule == "step":
        every = config.steps_between_decays(total_steps)
        # Not optax.exponential_decay: it divides two int32, which jax does in float32, under x64 too.
        return lambda count: lr * config.decay_rate ** (count // every)
    return optax.constant_schedule(lr)


def make_optimizer(config: Config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """torch's own defaults; weight decay is added to the gradient in sgd and adam (O1, O3), decoupled in adamw."""
    weight_decay = config.decay
    if config.optimizer == "sgd":
        return optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(schedule, momentum=config.momentum))
    if config.optimizer == "adam":
        return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(schedule))
    return optax.adamw(schedule, weight_decay=weight_decay)


def clip_grad_norm(gradients: Any, max_norm: float | None) -> tuple[Any, jax.Array]:
    """The gradients scaled down to ``max_norm``, and the norm that they had.

    Not optax.clip_by_global_norm: torch divides by the norm plus 1e-6 (O13).
    """
    norm = optax.tree.norm(gradients)
    if max_norm is None:
        return gradients, norm
    factor = jnp.minimum(max_norm / (norm + 1e-6), 1.0)
    return jax.tree.map(lambda gradient: gradient * factor, gradients), norm
