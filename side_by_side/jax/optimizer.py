"""Optimizers, schedules and clipping in JAX and Optax. Alone, to see the rates and some updates:

python -m side_by_side.jax.optimizer
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from port import transforms
from port.optim import by_name
from side_by_side.config import SCHEDULES, Config

# %% The learning rate over the run


def make_schedule(config: Config, total_steps: int) -> optax.Schedule:
    """The learning rate over the run, a function of the update's count from 0 (O14)."""
    lr = config.learning_rate
    if config.schedule == "cosine":
        return optax.cosine_decay_schedule(lr, decay_steps=total_steps)
    if config.schedule == "step":
        every = config.steps_between_decays(total_steps)
        # Not optax.exponential_decay: it divides two int32, which jax does in float32, under x64 too.
        return lambda count: lr * config.decay_rate ** (count // every)
    if config.schedule == "constant":
        return optax.constant_schedule(lr)
    every, rate = config.steps_between_decays(total_steps), config.decay_rate
    # torch's other schedules, as optax has none that is exact.
    others: dict[str, Callable[[], optax.Schedule]] = {
        "multi-step": lambda: transforms.multi_step_lr(lr, milestones=[every // 2, every], gamma=rate),
        "exponential": lambda: transforms.exponential_lr(lr, gamma=rate ** (1 / total_steps)),
        "polynomial": lambda: transforms.polynomial_lr(lr, total_iters=total_steps, power=2.0),
        "warm-up": lambda: transforms.linear_lr(lr, start_factor=0.1, total_iters=every),
        "warm-restarts": lambda: transforms.cosine_annealing_warm_restarts(lr, T_0=every),
        "cyclic": lambda: transforms.cyclic_lr(lr / 10, lr, step_size_up=every),
        "one-cycle": lambda: transforms.one_cycle_lr(lr, total_steps=total_steps + 1),
    }
    return others[config.schedule]()


# %% The optimizer


def make_optimizer(config: Config, schedule: optax.Schedule, model: nnx.Module) -> optax.GradientTransformation:
    """torch's own defaults; weight decay is added to the gradient in sgd and adam (O1, O3), decoupled in adamw."""
    weight_decay = config.decay
    if config.optimizer == "sgd":
        return optax.chain(
            optax.add_decayed_weights(weight_decay), optax.sgd(schedule, momentum=config.optimizer_options["momentum"])
        )
    if config.optimizer == "adam":
        return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(schedule))
    if config.optimizer == "adamw":
        return optax.adamw(schedule, weight_decay=weight_decay)
    # The others: plain optax where it is exact, else our own; `port.optax_source` prints which.
    return by_name(config.optimizer, model=model, **{**config.optimizer_options, "lr": schedule})


# %% Clipping


def clip_grad_norm(gradients: Any, max_norm: float | None) -> tuple[Any, jax.Array]:
    """The gradients scaled down to ``max_norm``, and the norm that they had.

    Not optax.clip_by_global_norm: torch divides by the norm plus 1e-6 (O13).
    """
    norm = optax.tree.norm(gradients)
    if max_norm is None:
        return gradients, norm
    factor = jnp.minimum(max_norm / (norm + 1e-6), 1.0)
    return jax.tree.map(lambda gradient: gradient * factor, gradients), norm


# %% Rates and updates


def main() -> None:
    """Every schedule over ten steps, then three updates of a weight, clipped, by gradients that numpy draws."""
    jax.config.update("jax_enable_x64", True)  # else the numbers below were float32
    for name in SCHEDULES:
        config = Config(schedule=name, optimizer="sgd", lr=0.1)
        schedule = make_schedule(config, total_steps=10)
        rates = [float(schedule(jnp.array(step))) for step in range(10)]
        print(f"{name:<13}", *(f"{rate:.6f}" for rate in rates))

    model = nnx.Linear(3, 2, use_bias=False, param_dtype=float, rngs=nnx.Rngs(0))
    for name in ("sgd", "adam", "adamw", "nadam", "rmsprop"):
        draw = np.random.default_rng(0).standard_normal
        weight = jnp.array(draw((2, 3)).T)  # a kernel is torch's weight transposed (W1)
        optimizer = make_optimizer(
            Config(optimizer=name, lr=0.1, weight_decay=0.01), optax.constant_schedule(0.1), model
        )
        state = optimizer.init(weight)
        for _ in range(3):
            gradient, _ = clip_grad_norm(jnp.array(draw((2, 3)).T), max_norm=1.0)
            updates, state = optimizer.update(gradient, state, weight)
            weight = optax.apply_updates(weight, updates)
        print(f"{name:<13}", *(f"{value:.12f}" for value in weight.T.flatten().tolist()))


if __name__ == "__main__":
    main()
