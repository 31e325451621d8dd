"""Classic mistakes in moving an optimizer: the comparison that passes the right one sees each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import port
from models.recorded import Recorded, distance, flax_steps, torch_step
from port import transforms

LIMIT = 1e-10
VISIBLE = 1e-8
STEPS = 20


def amsgrad_after_correction() -> optax.GradientTransformation:
    return optax.amsgrad(1e-2)


def rate_before_trace() -> optax.GradientTransformation:
    schedule = transforms.exponential_lr(1e-2, gamma=0.9)
    return optax.rmsprop(schedule, decay=0.99, eps_in_sqrt=False, momentum=0.9)


def epsilon_inside_the_root() -> optax.GradientTransformation:
    return optax.rmsprop(1e-2, decay=0.99, eps=1e-8)


def first_step_damped() -> optax.GradientTransformation:
    trace = optax.chain(optax.scale(1 - 0.3), optax.trace(0.9))
    return optax.chain(trace, optax.scale_by_learning_rate(1e-2))


def clipped_without_epsilon() -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(0.1))


def one_cycle_of_optax() -> optax.GradientTransformation:
    return optax.sgd(optax.cosine_onecycle_schedule(STEPS + 1, 0.1))


def mean_for_sum() -> optax.GradientTransformation:
    return optax.MultiSteps(optax.sgd(0.1), 4).gradient_transformation()


@dataclass(frozen=True)
class Case:
    """torch's optimizer, what stands around it, and the mistaken twin."""

    optimizer: Callable[[Any], torch.optim.Optimizer]
    wrong: Callable[[], optax.GradientTransformation]
    scheduler: Callable[[Any], Any] = lambda optimizer: None
    clip_norm: float | None = None
    accumulate: int = 1


CASES = {
    "amsgrad after correction": Case(lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True), amsgrad_after_correction),
    "RMSprop's rate before the trace": Case(
        lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.9),
        rate_before_trace,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    ),
    "epsilon inside the root": Case(lambda p: torch.optim.RMSprop(p, lr=1e-2), epsilon_inside_the_root),
    "first step damped": Case(lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, dampening=0.3), first_step_damped),
    "clipped without 1e-6": Case(lambda p: torch.optim.SGD(p, lr=0.1), clipped_without_epsilon, clip_norm=0.05),
    "one cycle's phase end": Case(
        lambda p: torch.optim.SGD(p, lr=0.1),
        one_cycle_of_optax,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.1, total_steps=STEPS + 1, cycle_momentum=False
        ),
    ),
    "mean for sum": Case(lambda p: torch.optim.SGD(p, lr=0.1), mean_for_sum, accumulate=4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(3)
def test_a_mistake_is_seen_and_the_right_one_passes(name: str, recorded: Recorded) -> None:
    case = CASES[name]
    module = recorded.fresh()
    optimizer = case.optimizer(module.parameters())
    scheduler = case.scheduler(optimizer)
    right, right_state = port.to_optax(
        optimizer,
        scheduler=scheduler,
        params=recorded.params,
        mapping=recorded.mapping,
        clip_norm=case.clip_norm,
        accumulate=case.accumulate,
    )
    wrong = case.wrong()
    ours, theirs = flax_steps(right), flax_steps(wrong)
    params, others, wrong_state = recorded.params, recorded.params, wrong.init(recorded.params)
    worst, seen = 0.0, 0.0
    for begin in range(0, STEPS, case.accumulate):
        micro = recorded.gradients[begin : begin + case.accumulate]
        summed = {key: torch.stack([gradients[key] for gradients in micro]).sum(0) for key in micro[0]}
        clip = lambda: (  # noqa: E731
            torch.nn.utils.clip_grad_norm_(module.parameters(), case.clip_norm) if case.clip_norm else None
        )
        torch_step(module, optimizer, summed, clip)
        if scheduler is not None:
            scheduler.step()
        for gradients in micro:
            given = jax.tree.map(jnp.asarray, recorded.to_flax(gradients))
            params, right_state = ours(given, right_state, params)
            others, wrong_state = theirs(given, wrong_state, others)
        worst = float(np.maximum(worst, distance(recorded.to_torch(params), module)))
        seen = max(seen, distance(recorded.to_torch(others), module))
    assert worst <= LIMIT
    assert seen > VISIBLE
