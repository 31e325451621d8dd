"""Rprop against torch.optim.Rprop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.transforms.rprop import torch_rprop

FIELDS = {"step": "count", "prev": "prev", "step_size": "step_size"}
OPTIONS = [
    {},
    {"etas": (0.3, 1.7), "step_sizes": (1e-2, 0.06)},  # both ends are met
]

ours = cache(torch_rprop)  # compiled once


def torchs(**options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Rprop(parameters, lr=0.05, foreach=False, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(0.05, **options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


def test_a_later_learning_rate_changes_nothing(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, steps=10, rates=lambda step: 0.05 + step)
    assert max(differences.values()) <= 1e-12, differences


def test_zeros_and_what_is_no_number(float64: None) -> None:
    """A gradient of 0 keeps the size, one after a turn too, and one that is no number: torch's sign of it is 0."""
    gradients = np.asarray(
        [[1.0, 1.0, 0.0, 1.0], [0.0, -1.0, 2.0, np.nan], [1.0, -1.0, 2.0, 1.0], [1.0, 1.0, 2.0, 1.0]]
    )
    parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = torch.optim.Rprop([parameter], lr=0.05, foreach=False)
    transformation = ours(0.05)
    params = jnp.zeros(4)
    state = transformation.init(params)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        updates, state = transformation.update(jnp.asarray(gradient), state, params)
        params = params + updates
        np.testing.assert_allclose(params, parameter.detach().numpy(), rtol=1e-15)
        for field in ("prev", "step_size"):
            np.testing.assert_allclose(getattr(state, field), optimizer.state[parameter][field].numpy(), rtol=1e-15)
    assert np.isfinite(params).all()


def test_a_gradient_kept_where_the_sign_turned_is_seen(beside_torch: Any, float64: None) -> None:
    def ours_without_forgetting() -> optax.GradientTransformation:
        right = ours(0.05)

        def update(gradients: Any, state: Any, params: Any = None) -> Any:
            updates, state = right.update(gradients, state, params)
            return updates, state._replace(prev=gradients)

        return optax.GradientTransformation(right.init, update)

    differences = beside_torch(torchs(), ours_without_forgetting(), FIELDS)
    assert differences["parameter kernel"] > 1e-2
    assert differences["step_size kernel"] > 1e-2


def test_optax_returns_the_update_of_the_step_before(beside_torch: Any, float64: None) -> None:
    names = {"step": None, "prev": None, "step_size": "step_sizes"}
    differences = beside_torch(torchs(), optax.rprop(0.05), names)
    assert differences["parameter kernel"] > 1e-2
    assert differences["step_size kernel"] <= 1e-12
