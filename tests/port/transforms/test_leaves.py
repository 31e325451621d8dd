"""What every transformation keeps to: dtypes, trees with holes, scan, hyperparameters that are traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from port.transforms.adafactor import torch_adafactor
from port.transforms.adagrad import scale_by_torch_adagrad
from port.transforms.amsgrad import scale_by_torch_amsgrad
from port.transforms.asgd import torch_asgd
from port.transforms.leaves import map_leaves
from port.transforms.momentum import scale_by_torch_momentum
from port.transforms.muon import torch_muon
from port.transforms.nadam import scale_by_torch_nadam
from port.transforms.radam import scale_by_torch_radam
from port.transforms.rprop import torch_rprop

# Each with the options that it is tested with.
TRANSFORMATIONS: dict[Callable[..., optax.GradientTransformation], dict[str, Any]] = {
    scale_by_torch_momentum: {"momentum": 0.9, "dampening": 0.1},
    scale_by_torch_amsgrad: {},
    scale_by_torch_nadam: {},
    scale_by_torch_radam: {},
    scale_by_torch_adagrad: {},
    torch_rprop: {},
    torch_asgd: {"t0": 1},
    torch_adafactor: {},
    torch_muon: {},
}
every = pytest.mark.parametrize("make", TRANSFORMATIONS, ids=lambda make: make.__name__)


@every
@pytest.mark.parametrize("x64", [False, True])
def test_scan_keeps_dtypes_and_nodes_without_leaves(make: Any, x64: bool) -> None:
    """Traced alone, with every number a traced one: scan refuses a state that changes its types."""

    def run(params: Any) -> Any:
        transformation = optax.inject_hyperparams(make, hyperparam_dtype=jnp.float32)(**TRANSFORMATIONS[make])

        def advance(state: Any, gradients: Any) -> Any:
            updates, state = transformation.update(gradients, state, params)
            return state, updates

        return jax.lax.scan(advance, transformation.init(params), jax.tree.map(lambda leaf: leaf[None], params))

    with jax.enable_x64(x64):
        dtypes = ("float16", "bfloat16", "float32", *(["float64"] if x64 else []))
        leaves = {dtype: jax.ShapeDtypeStruct((2, 3), dtype) for dtype in dtypes}
        state, updates = jax.eval_shape(run, {"leaves": leaves, "hole": optax.MaskedNode(), "nothing": {}})
    assert jax.tree.map(lambda leaf: leaf.dtype.name, updates["leaves"]) == {dtype: dtype for dtype in dtypes}
    assert updates["hole"] == optax.MaskedNode() and updates["nothing"] == {}
    assert state.inner_state._fields == make(**TRANSFORMATIONS[make]).init({})._fields


@every
def test_an_empty_tree(make: Any) -> None:
    transformation = make(**TRANSFORMATIONS[make])
    updates, state = transformation.update({}, transformation.init({}), {})
    assert updates == {}
    assert jax.tree.structure(state) == jax.tree.structure(transformation.init({}))


@every
def test_partition_and_traced_hyperparameters(make: Any) -> None:
    """Masked and traced, each leaf's update is what it is alone and with plain numbers."""
    options = TRANSFORMATIONS[make]
    params = {"mine": jnp.asarray([[0.3, -0.2, 1.0]]), "other": jnp.asarray([2.0, 1.0])}
    gradients = {"mine": jnp.asarray([[0.5, 0.1, -0.7]]), "other": jnp.asarray([1.0, 0.5])}
    transforms = {"a": optax.inject_hyperparams(make)(**options), "b": optax.sgd(0.5)}
    parted = optax.partition(transforms, {"mine": "a", "other": "b"})
    updates, _ = jax.jit(lambda g, p: parted.update(g, parted.init(p), p))(gradients, params)
    plain = make(**options)
    alone, _ = jax.jit(lambda g, p: plain.update(g, plain.init(p), p))(gradients["mine"], params["mine"])
    assert jnp.abs(alone).min() > 1e-5
    # A traced float32 0.999 is 1e-8 off, and 1 less it 1e-5.
    np.testing.assert_allclose(updates["mine"], alone, rtol=5e-5)
    np.testing.assert_array_equal(updates["other"], [-0.5, -0.25])


def test_a_step_is_taken_in_float32_and_rounded_once() -> None:
    seen = []

    def step(gradient: jax.Array, state: jax.Array, param: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen.append((gradient.dtype, state.dtype, param.dtype))
        return gradient * (1 + 2**-9) * (1 + 2**-9), state * 0.999 * 0.999

    gradients, states = {"w": jnp.ones(2, jnp.bfloat16)}, {"w": jnp.ones(2, jnp.float16)}
    directions, states = map_leaves(step, gradients, (states,), {"w": jnp.ones(2)})
    assert seen == [(jnp.float32, jnp.float32, jnp.float32)]
    assert directions["w"].dtype == jnp.bfloat16 and states["w"].dtype == jnp.float16
    # Rounded after each product, in bfloat16, it would be 1.
    assert directions["w"].tolist() == [float(jnp.bfloat16((1 + 2**-9) ** 2))] * 2 != [1.0, 1.0]
