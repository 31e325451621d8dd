"""The momentum against torch.optim.SGD."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import optax
import pytest
import torch

from port.errors import UsageError
from port.transforms.momentum import scale_by_torch_momentum

FIELDS = {"momentum_buffer": "trace"}
OPTIONS = [
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.3},
    {"momentum": 0.6, "dampening": 1.0},
    {"momentum": 0.9, "nesterov": True},
]


@cache  # compiled once
def ours(**options: Any) -> optax.GradientTransformation:
    return optax.chain(scale_by_torch_momentum(**options), optax.scale_by_learning_rate(0.05))


def torchs(**options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=0.05, foreach=False, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(**options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(**OPTIONS[1]), ours(**OPTIONS[1]), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(**OPTIONS[1]), ours(**OPTIONS[1]), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_a_damped_first_step_is_seen(beside_torch: Any, float64: None) -> None:
    def start(state: Any) -> Any:
        return (state[0]._replace(started=jnp.ones((), bool)), *state[1:])

    differences = beside_torch(torchs(**OPTIONS[1]), ours(**OPTIONS[1]), FIELDS, steps=10, prepare=start)
    assert min(differences.values()) > 1e-3


def test_optax_damps_the_first_step(beside_torch: Any, float64: None) -> None:
    theirs = optax.chain(optax.scale(0.7), optax.trace(0.9), optax.scale_by_learning_rate(0.05))
    assert max(beside_torch(torchs(**OPTIONS[1]), theirs, FIELDS).values()) > 0.1


def test_momentum_that_passes_through_0_leaves_the_buffer_alone(float64: None) -> None:
    parameter = torch.nn.Parameter(torch.tensor([0.3, -0.2], dtype=torch.float64))
    optimizer = torch.optim.SGD([parameter], lr=1.0, dampening=0.4, foreach=False)
    inject = optax.inject_hyperparams(scale_by_torch_momentum)
    schedule = jnp.asarray([0.0, 0.9, 0.0, 0.8])
    transformation = inject(momentum=lambda count: schedule[count], dampening=0.4)
    params = jnp.asarray(parameter.detach().numpy())
    state = transformation.init(params)
    for number, momentum in enumerate(schedule):
        gradient = jnp.asarray([0.7, 1.3]) * (number + 1)
        optimizer.param_groups[0]["momentum"] = float(momentum)
        parameter.grad = torch.tensor(gradient.tolist(), dtype=torch.float64)
        optimizer.step()
        directions, state = transformation.update(gradient, state, params)
        params = params - directions
        assert jnp.allclose(params, parameter.detach().numpy(), rtol=1e-14, atol=0), number
    assert jnp.allclose(state.inner_state.trace, optimizer.state[parameter]["momentum_buffer"].numpy(), rtol=1e-14)


@pytest.mark.parametrize("options", [{"momentum": 0.9, "dampening": 0.1}, {"momentum": 0.0}])
def test_nesterov_is_refused_where_torch_refuses_it(options: Any) -> None:
    with pytest.raises(ValueError, match="Nesterov"):
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], nesterov=True, **options)
    with pytest.raises(UsageError, match="positive momentum and no dampening"):
        scale_by_torch_momentum(nesterov=True, **options)
