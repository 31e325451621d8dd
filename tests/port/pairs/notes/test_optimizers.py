"""Optimizers: torch's beside the twins that suggest themselves, on one sequence of random gradients."""

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

LR = 0.1
SHAPES = {"matrix": (3, 5), "vector": (4,)}
_random = np.random.default_rng(0)
START = {name: _random.normal(size=shape) for name, shape in SHAPES.items()}
GRADIENTS = [{name: _random.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(20)]


def in_torch(make: Callable[[Any], torch.optim.Optimizer], scheduler: Callable[[Any], Any] | None = None) -> Any:
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in START.items()}
    optimizer = make(parameters.values())
    schedule = scheduler(optimizer) if scheduler else None
    for gradients in GRADIENTS:
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradients[name])
        optimizer.step()
        if schedule:
            schedule.step()
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def in_optax(transformation: optax.GradientTransformation) -> Any:
    params = jax.tree.map(jnp.asarray, START)

    def step(carry: Any, gradients: Any) -> tuple[Any, None]:
        params, state = carry
        updates, state = transformation.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), None

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *GRADIENTS)
    return jax.lax.scan(step, (params, transformation.init(params)), stacked)[0][0]


def distance(ours: Any, theirs: Any) -> float:
    return max(np.abs(ours[name] - theirs[name]).max() for name in SHAPES)


@dataclass(frozen=True)
class Case:
    torch: Callable[[Any], torch.optim.Optimizer]
    right: optax.GradientTransformation
    tempting: optax.GradientTransformation


CASES = {
    "O1 decay behind the momentum": Case(
        lambda p: torch.optim.SGD(p, LR, momentum=0.9, nesterov=True, weight_decay=0.1),
        optax.chain(optax.add_decayed_weights(0.1), optax.sgd(LR, 0.9, nesterov=True)),
        optax.chain(optax.trace(0.9, nesterov=True), optax.add_decayed_weights(0.1), optax.scale_by_learning_rate(LR)),
    ),
    "O3 adamw for Adam": Case(
        lambda p: torch.optim.Adam(p, LR, weight_decay=0.1),
        optax.chain(optax.add_decayed_weights(0.1), optax.adam(LR)),
        optax.adamw(LR, weight_decay=0.1),
    ),
    "O4 the default decay": Case(
        lambda p: torch.optim.AdamW(p, LR), optax.adamw(LR, weight_decay=1e-2), optax.adamw(LR)
    ),
    "O5 the default decay": Case(
        lambda p: torch.optim.RMSprop(p, LR),
        optax.rmsprop(LR, decay=0.99, eps_in_sqrt=False),
        optax.rmsprop(LR, eps_in_sqrt=False),
    ),
    "O5 the epsilon inside of the root": Case(
        lambda p: torch.optim.RMSprop(p, LR, eps=1e-3),
        optax.rmsprop(LR, decay=0.99, eps=1e-3, eps_in_sqrt=False),
        optax.rmsprop(LR, decay=0.99, eps=1e-3),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin(2)
def test_a_tempting_twin_is_another_and_the_right_one_is_not(name: str, float64: None) -> None:
    case = CASES[name]
    theirs = in_torch(case.torch)
    assert distance(in_optax(case.right), theirs) < 1e-13
    assert distance(in_optax(case.tempting), theirs) > 1e-3


def test_O11_adadelta_and_adamax_are_torchs(float64: None) -> None:
    adadelta, adamax = (in_torch(lambda p, cls=cls: cls(p, LR)) for cls in (torch.optim.Adadelta, torch.optim.Adamax))
    assert distance(in_optax(optax.adadelta(LR)), adadelta) < 1e-14
    assert distance(in_optax(optax.adamax(LR)), adamax) < 1e-14
    # And it is seen where they are not.
    assert distance(in_optax(optax.adadelta(LR, rho=0.95)), adadelta) > 1e-6
    assert distance(in_optax(optax.adamax(LR, b2=0.99)), adamax) > 1e-3


def test_O14_count_0_is_torchs_first_step(float64: None) -> None:
    def rate(count: Any) -> Any:
        return LR * 0.8 ** jnp.asarray(count, float)

    theirs = in_torch(
        lambda p: torch.optim.SGD(p, LR), lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    )
    assert distance(in_optax(optax.sgd(rate)), theirs) < 1e-14
    assert distance(in_optax(optax.sgd(lambda count: rate(count + 1))), theirs) > 1e-3


@pytest.mark.sweep
def test_O19_a_zero_gradient_decays_and_none_does_not(float64: None) -> None:
    start = START["vector"]
    parameters = [torch.nn.Parameter(torch.tensor(start)) for _ in range(2)]
    optimizer = torch.optim.SGD(parameters, LR, weight_decay=0.1)
    parameters[1].grad = torch.zeros_like(parameters[1])
    optimizer.step()
    skipped, decayed = (parameter.detach().numpy() for parameter in parameters)
    np.testing.assert_array_equal(skipped, start)
    assert np.abs(decayed - start).min() > 1e-4

    decay = optax.chain(optax.add_decayed_weights(0.1), optax.sgd(LR))
    params, labels = {"skipped": start, "trained": start}, {"skipped": "frozen", "trained": "free"}
    zeros = jax.tree.map(jnp.zeros_like, params)
    for transformation, of_skipped in (
        (decay, decayed),
        (optax.partition({"frozen": optax.set_to_zero(), "free": decay}, labels), skipped),
    ):
        updates, _ = transformation.update(zeros, transformation.init(params), params)
        updated = optax.apply_updates(params, updates)
        np.testing.assert_allclose(updated["skipped"], of_skipped, rtol=1e-15)
        np.testing.assert_allclose(updated["trained"], decayed, rtol=1e-15)
