"""Each side on gradients of its own, and in float32: as near as the rounding of the gradients lets them be.

The floor is measured in the same test: the same torch optimizer, fed jax's gradients at its own parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

import port
from models.recorded import Recorded, convnet, distance, flax_steps, mlp, torch_step
from port.optim import NAMES
from port.optim.layout import flax_like

STEPS = 60
ALL = [name for name in NAMES if name not in ("lbfgs", "muon")]
SHORT = ("sgd", "nadam")
OPTIONS: dict[str, dict[str, Any]] = {"sgd": {"lr": 0.1, "momentum": 0.9}}


@pytest.fixture(scope="module")
def models() -> dict[str, Recorded]:
    with jax.enable_x64(True):
        return {"mlp": mlp(), "convnet": convnet()}


def made(name: str, module: torch.nn.Module) -> torch.optim.Optimizer:
    cls = {cls.lower(): getattr(torch.optim, cls) for cls in torch.optim.__all__}[name]
    optimizer: torch.optim.Optimizer = cls(module.parameters(), **OPTIONS.get(name, {}))
    return optimizer


def gradients_of_jax(recorded: Recorded) -> Callable[[Any, torch.Tensor, torch.Tensor], Any]:
    assert recorded.model is not None
    recorded.model.train()
    graphdef, _, rest = nnx.split(recorded.model, nnx.Param, ...)  # type: ignore[misc]

    def loss_fn(params: Any, inputs: jax.Array, targets: jax.Array) -> jax.Array:
        logits = nnx.merge(graphdef, params, rest, copy=True)(inputs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    compiled = jax.jit(jax.grad(loss_fn))
    return lambda params, inputs, targets: compiled(params, jnp.asarray(inputs.numpy()), jnp.asarray(targets.numpy()))


def free_in_torch(module: torch.nn.Module, optimizer: torch.optim.Optimizer, recorded: Recorded) -> None:
    for inputs, targets in recorded.batches:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), targets).backward()
        optimizer.step()


@pytest.mark.parametrize("model", ["mlp", "convnet"])
@pytest.mark.parametrize("name", [n if n in SHORT else pytest.param(n, marks=pytest.mark.sweep) for n in ALL])
def test_within_ten_times_the_floor(name: str, model: str, models: dict[str, Recorded]) -> None:
    recorded = models[model]
    gradients_at = gradients_of_jax(recorded)
    module, other = recorded.fresh(), recorded.fresh()
    optimizer, fed = made(name, module), made(name, other)
    transformation, state = port.to_optax(optimizer, params=recorded.params, mapping=recorded.mapping)
    free_in_torch(module, optimizer, recorded)

    step, params = flax_steps(transformation), recorded.params
    for inputs, targets in recorded.batches:
        params, state = step(gradients_at(params, inputs, targets), state, params)
        here = recorded.to_flax({key: p.detach() for key, p in other.named_parameters()})
        named = recorded.to_torch(gradients_at(here, inputs, targets))
        torch_step(other, fed, {key: torch.from_numpy(np.array(value)) for key, value in named.items()})
    floor = distance({key: p.detach().numpy() for key, p in other.named_parameters()}, module)
    found = distance(recorded.to_torch(params), module)
    print(f"\n{name}, {model}: {found:.1e}, floor {floor:.1e}")
    # Whatever the gradients: each update rounds each parameter once, and not on both sides in the same place.
    rounding = STEPS**0.5 * np.finfo(np.float64).eps
    assert found <= 10 * max(floor, rounding)


@pytest.mark.parametrize("name", [n if n in SHORT else pytest.param(n, marks=pytest.mark.sweep) for n in ALL])
def test_in_float32_over_ten_steps(name: str, models: dict[str, Recorded]) -> None:
    recorded = models["mlp"]
    module = recorded.fresh().float()
    optimizer = made(name, module)
    with jax.enable_x64(False):
        params = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), recorded.params)
        transformation, state = port.to_optax(optimizer, params=params, mapping=recorded.mapping)
        step = flax_steps(transformation)
        for gradients in recorded.gradients[:10]:
            torch_step(module, optimizer, gradients)
            named = {key: jnp.asarray(value.float().numpy()) for key, value in gradients.items()}
            params, state = step(flax_like(named, params, recorded.mapping), state, params)
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
        assert distance(recorded.to_torch(params), module) <= 1e-5
