"""Optimizers, schedules and clipping in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LRScheduler, StepLR

from side_by_side.config import Config


def make_schedule(config: Config, optimizer: Optimizer, total_steps: int) -> LRScheduler:
    """The learning rate over the run; `step()` is called after every update."""
    if config.schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=total_steps)
    if config.schedule == "step":
        return StepLR(optimizer, config.steps_between_decays(total_steps), gamma=config.decay_rate)
    return ConstantLR(optimizer, factor=1.0)


def make_optimizer(config: Config, parameters: Iterable[Tensor]) -> Optimizer:
    """torch's own defaults; weight decay is added to the gradient in sgd and adam, decoupled in adamw."""
    lr, weight_decay = config.learning_rate, config.decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=config.momentum, weight_decay=weight_decay)
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=weight_decay)
    return torch.optim.AdamW(parameters, lr, weight_decay=weight_decay)


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float | None) -> Tensor:
    """Scale the gradients, in place, down to ``max_norm``; returns the norm that they had."""
    return torch.nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm)
