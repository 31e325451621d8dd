"""Adafactor against torch.optim.Adafactor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from port.errors import UsageError
from port.transforms.adafactor import torch_adafactor

FIELDS = {"step": "count", "row_var": "row_var", "col_var": "col_var", "variance": "variance"}
OPTIONS = [
    {},
    {"beta2_decay": -0.3, "eps": (1e-2, 3.0), "d": 1.5, "weight_decay": 0.2},
    {"eps": (0.5, 1e-3), "d": 1.05},  # eps₁ is met, and the update's bound
]

ours = cache(torch_adafactor)  # compiled once


def torchs(lr: float = 0.05, **options: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adafactor(parameters, lr=lr, foreach=False, **options)


def falling(step: Any) -> Any:
    return 2.0 / (1 + 0.2 * step)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thin(3)
def test_every_step_is_torchs(beside_torch: Any, float64: None, options: Any) -> None:
    differences = beside_torch(torchs(**options), ours(0.05, **options), FIELDS)
    assert max(differences.values()) <= 1e-12, differences


def test_with_a_schedule_that_crosses_the_relative_step(beside_torch: Any, float64: None) -> None:
    options = OPTIONS[1]
    differences = beside_torch(torchs(**options), ours(falling, **options), FIELDS, rates=falling)
    assert max(differences.values()) <= 1e-12, differences


def test_a_restart_goes_on_as_torch(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, restart=30)
    assert max(differences.values()) <= 1e-12, differences


def test_small_gradients_meet_the_machine_epsilon(beside_torch: Any, float64: None) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, steps=10, scale=1e-16)
    assert max(differences.values()) <= 1e-12, differences
    other = ours(0.05, eps=(1e-17, 1e-3))
    assert beside_torch(torchs(), other, FIELDS, steps=10, scale=1e-16)["parameter vector"] > 1e-4


def test_float32(beside_torch: Any) -> None:
    differences = beside_torch(torchs(), ours(0.05), FIELDS, steps=10)
    assert max(differences.values()) <= 1e-5, differences


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_epsilon_is_that_of_the_leafs_own_dtype(dtype: str) -> None:
    """Gradients so small that the update is the gradient over it."""
    values = np.asarray([0.5, -0.25, 2.0])
    parameter = torch.nn.Parameter(torch.tensor(values, dtype=getattr(torch, dtype)))
    parameter.grad = torch.tensor(values * 2**-14, dtype=getattr(torch, dtype))
    torch.optim.Adafactor([parameter], lr=0.5, d=1.0).step()
    params, gradients = jnp.asarray(values, dtype), jnp.asarray(values * 2**-14, dtype)
    transformation = ours(0.5)
    updates, _ = jax.jit(transformation.update)(gradients, transformation.init(params), params)
    moved = jnp.float32(parameter.detach().float().numpy() - values)
    assert updates.dtype == dtype
    # Half a unit in the last place of the parameter, which torch's has been added to.
    np.testing.assert_allclose(updates.astype(jnp.float32), moved, atol=float(jnp.finfo(dtype).eps))
    assert 0 < abs(moved[2]) < 0.1


def test_the_other_layout_is_seen(beside_torch: Any, float64: None) -> None:
    """A kernel (2, 3, 2, 4) is factored along its last two axes, which the other layout takes elsewhere."""
    right = ours(0.05)

    def turned(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, -1) if leaf.ndim == 4 else leaf, tree)

    def back(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 1) if leaf.ndim == 4 else leaf, tree)

    def update(gradients: Any, state: Any, params: Any) -> Any:
        updates, state = right.update(turned(gradients), state, turned(params))
        return back(updates), state

    wrong = optax.GradientTransformation(lambda params: right.init(turned(params)), update)
    differences = beside_torch(torchs(), wrong, dict.fromkeys(FIELDS) | {"step": "count"})
    assert differences["parameter kernel"] > 1e-3
    assert differences["parameter matrix"] <= 1e-12


def test_optax_differs(beside_torch: Any, float64: None) -> None:
    """It factors large axes alone; made to factor all, the two largest of a kernel."""
    assert beside_torch(torchs(), optax.adafactor(0.05), dict.fromkeys(FIELDS))["parameter matrix"] > 1e-3
    theirs = optax.adafactor(0.05, min_dim_size_to_factor=1)
    differences = beside_torch(torchs(), theirs, dict.fromkeys(FIELDS))
    assert differences["parameter kernel"] > 1e-3
    assert differences["parameter matrix"] < 1e-7


def test_masked_nodes_stand_where_there_is_no_array() -> None:
    leaves = {
        "kernel": jax.ShapeDtypeStruct((2, 3, 4, 5), jnp.float32),
        "bias": jax.ShapeDtypeStruct((3,), jnp.float32),
    }
    state = jax.eval_shape(ours().init, leaves)
    assert jax.tree.map(jnp.shape, state.row_var) == {"kernel": (2, 3, 4, 1), "bias": optax.MaskedNode()}
    assert jax.tree.map(jnp.shape, state.col_var) == {"kernel": (2, 3, 1, 5), "bias": optax.MaskedNode()}
    assert jax.tree.map(jnp.shape, state.variance) == {"kernel": optax.MaskedNode(), "bias": (3,)}


def test_it_asks_for_the_parameters() -> None:
    transformation = ours()
    with pytest.raises(UsageError, match="torch_adafactor reads the parameters"):
        transformation.update(jnp.ones(2), transformation.init(jnp.ones(2)))
