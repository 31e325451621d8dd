"""LBFGS, which remembers all parameters together: handed over there and back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port
from models.recorded import distance, mlp
from port.errors import UsageError

LIMIT = 1e-10


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.sweep
def test_lbfgs_on_a_fixed_problem_handed_over_there_and_back(line_search: str | None) -> None:
    recorded = mlp()
    generator = np.random.default_rng(2)
    inputs, targets = generator.standard_normal((40, 5)), generator.standard_normal((40, 3))
    module = recorded.fresh()
    make = lambda module: torch.optim.LBFGS(  # noqa: E731
        module.parameters(), lr=0.5, max_iter=6, history_size=5, line_search_fn=line_search
    )
    optimizer = make(module)

    def closure_of(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
        def closure() -> Any:
            optimizer.zero_grad()
            outputs = module(torch.from_numpy(inputs))
            loss = ((outputs - torch.from_numpy(targets)) ** 2).mean()
            loss = loss + 0.5 * sum((p**2).sum() for p in module.parameters())
            loss.backward()
            return loss

        return closure

    @jax.value_and_grad
    def loss_fn(params: Any) -> jax.Array:
        layers = nnx.to_pure_dict(params)
        hidden = jnp.tanh(inputs @ layers["fc1"]["kernel"] + layers["fc1"]["bias"])
        outputs = hidden @ layers["fc2"]["kernel"] + layers["fc2"]["bias"]
        penalty = sum((leaf**2).sum() for leaf in jax.tree.leaves(params))
        return ((outputs - targets) ** 2).mean() + 0.5 * penalty

    with pytest.raises(UsageError, match="no gradient to clip"):
        port.to_optax(optimizer, params=recorded.params, mapping=recorded.mapping, clip_norm=1.0)
    for _ in range(2):
        optimizer.step(closure_of(module, optimizer))
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping)

    @jax.jit
    def step(state: Any, params: Any) -> Any:
        updates, state = transformation.update(params, state, params, value_and_grad_fn=loss_fn)
        return jax.tree.map(jnp.add, params, updates), state

    for _ in range(4):
        optimizer.step(closure_of(module, optimizer))
        params, state = step(state, params)
        assert distance(recorded.to_torch(params), module) <= LIMIT

    back = copy.deepcopy(module)
    resumed = make(back)
    port.load_optimizer(resumed, state, mapping=recorded.mapping, params=params)
    for _ in range(3):
        optimizer.step(closure_of(module, optimizer))
        resumed.step(closure_of(back, resumed))
    assert distance({name: p.detach().numpy() for name, p in back.named_parameters()}, module) <= LIMIT
