"""Optimizers, schedules and clipping in PyTorch. Alone, to see the rates and some updates:

python -m side_by_side.pytorch.optimizer
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LRScheduler, StepLR

from side_by_side.config import SCHEDULES, Config

# %% The learning rate over the run


def make_schedule(config: Config, optimizer: Optimizer, total_steps: int) -> LRScheduler:
    """The learning rate over the run; `step()` is called after every update."""
    if config.schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=total_steps)
    if config.schedule == "step":
        return StepLR(optimizer, config.steps_between_decays(total_steps), gamma=config.decay_rate)
    if config.schedule == "constant":
        return ConstantLR(optimizer, factor=1.0)
    lr, every, rate = config.learning_rate, config.steps_between_decays(total_steps), config.decay_rate
    others: dict[str, Callable[[], LRScheduler]] = {
        "multi-step": lambda: lr_scheduler.MultiStepLR(optimizer, [every // 2, every], gamma=rate),
        "exponential": lambda: lr_scheduler.ExponentialLR(optimizer, gamma=rate ** (1 / total_steps)),
        "polynomial": lambda: lr_scheduler.PolynomialLR(optimizer, total_iters=total_steps, power=2.0),
        "warm-up": lambda: lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=every),
        "warm-restarts": lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=every),
        "cyclic": lambda: lr_scheduler.CyclicLR(optimizer, lr / 10, lr, step_size_up=every, cycle_momentum=False),
        "one-cycle": lambda: lr_scheduler.OneCycleLR(optimizer, lr, total_steps=total_steps + 1, cycle_momentum=False),
    }
    return others[config.schedule]()


# %% The optimizer


def make_optimizer(config: Config, parameters: Iterable[Tensor]) -> Optimizer:
    """torch's own defaults; weight decay is added to the gradient in sgd and adam, decoupled in adamw."""
    lr, weight_decay = config.learning_rate, config.decay
    if config.optimizer == "sgd":
        momentum = config.optimizer_options["momentum"]
        return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=weight_decay)
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=weight_decay)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr, weight_decay=weight_decay)
    classes = {name.lower(): getattr(torch.optim, name) for name in torch.optim.__all__}
    made: Optimizer = classes[config.optimizer](parameters, **config.optimizer_options)
    return made


# %% Clipping


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """Scale the gradients, in place, down to ``max_norm``; returns the norm that they had."""
    return torch.nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm)


# %% Rates and updates


def main() -> None:
    """Every schedule over ten steps, then three updates of a weight, clipped, by gradients that numpy draws."""
    for name in SCHEDULES:
        config = Config(schedule=name, optimizer="sgd", lr=0.1)
        optimizer = make_optimizer(config, [torch.zeros(1, requires_grad=True)])
        schedule = make_schedule(config, optimizer, total_steps=10)
        rates = []
        for _ in range(10):
            rates.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        print(f"{name:<13}", *(f"{rate:.6f}" for rate in rates))

    for name in ("sgd", "adam", "adamw", "nadam", "rmsprop"):
        draw = np.random.default_rng(0).standard_normal
        weight = torch.tensor(draw((2, 3)), requires_grad=True)
        optimizer = make_optimizer(Config(optimizer=name, lr=0.1, weight_decay=0.01), [weight])
        for _ in range(3):
            weight.grad = torch.tensor(draw((2, 3)))
            clip_grad_norm([weight], max_norm=1.0)
            optimizer.step()
        print(f"{name:<13}", *(f"{value:.12f}" for value in weight.flatten().tolist()))


if __name__ == "__main__":
    main()
