"""`port.nn.Frozen` and `frozen`: parameters that neither nnx.grad nor nnx.Optimizer touches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from port.nn import LSTM, Frozen, WeightNorm, frozen


class Net(nnx.Module):
    """A frozen backbone, a layer of which one parameter is frozen, one's own, and a trained head."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.backbone = frozen(nnx.Sequential(nnx.Linear(5, 4, rngs=rngs), jax.nn.tanh, nnx.BatchNorm(4, rngs=rngs)))
        self.listed = frozen(nnx.List([nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)]), "0", "1.bias")
        self.recurrent = frozen(LSTM(4, 3, rngs=rngs), "weight_hh_l0")
        self.normed = frozen(WeightNorm(nnx.Linear(3, 3, rngs=rngs)))
        self.table = Frozen(jax.random.normal(rngs.params(), (3,)))
        self.head = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.backbone(x)
        for layer in self.listed:
            x = layer(x)
        return self.head(self.normed(self.recurrent(x)[0]) * self.table[...])


TRAINED = {"listed.1.kernel", "recurrent.weight_ih_l0", "recurrent.bias_ih_l0", "recurrent.bias_hh_l0"}
TRAINED |= {"head.kernel", "head.bias"}


def kinds(module: Any) -> dict[str, str]:
    state = nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState)))
    return {".".join(map(str, path)): type(variable).__name__ for path, variable in state}


def values(module: Any) -> dict[str, np.ndarray]:
    state = nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState)))
    return {".".join(map(str, path)): np.asarray(variable[...]) for path, variable in state}


def test_what_is_frozen_is_of_a_kind_of_its_own() -> None:
    found = kinds(Net(nnx.Rngs(0)))
    assert {name for name, kind in found.items() if kind == "Param"} == TRAINED
    assert found["backbone.layers.0.kernel"] == found["table"] == found["normed.scale"] == "Frozen"
    assert found["backbone.layers.2.mean"] == "BatchStat"


def test_it_is_so_behind_eval_shape_split_and_merge() -> None:
    made = Net(nnx.Rngs(0))
    assert kinds(nnx.eval_shape(lambda: Net(nnx.Rngs(0)))) == kinds(made)
    assert kinds(nnx.merge(*nnx.split(made))) == kinds(nnx.clone(made)) == kinds(made)
    assert kinds(nnx.jit(lambda: Net(nnx.Rngs(0)))()) == kinds(made)


def test_W29_neither_grad_nor_optimizer_touches_it() -> None:
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(0.1, weight_decay=0.5), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (6, 7, 5))

    @nnx.jit
    def step(model: Net, optimizer: nnx.Optimizer[Net]) -> Any:
        gradients = nnx.grad(lambda model: jnp.square(model(x) - 1).sum())(model)
        optimizer.update(model, gradients)
        return gradients

    before = values(model)
    gradients = step(model, optimizer)
    step(model, optimizer)
    assert {".".join(map(str, path)) for path, _ in nnx.to_flat_state(gradients)} == TRAINED
    moved = {name for name, array in values(model).items() if (array != before[name]).any()}
    assert moved == {*TRAINED, "backbone.layers.2.mean", "backbone.layers.2.var"}


def test_values_and_metadata_stay() -> None:
    plain, made = nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    made.kernel.set_metadata(meaning="mine")
    assert frozen(made, "kernel") is made
    assert isinstance(made.kernel, Frozen) and made.kernel.get_metadata("meaning") == "mine"
    np.testing.assert_array_equal(made.kernel[...], plain.kernel[...])
    assert isinstance(made.bias, nnx.Param)


def test_what_is_shared_stays_shared() -> None:
    class Tied(nnx.Module):
        def __init__(self) -> None:
            self.one = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
            self.other = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
            self.other.kernel = self.one.kernel

    made = frozen(Tied())
    assert made.one.kernel is made.other.kernel
    assert kinds(made) == {"one.bias": "Frozen", "one.kernel": "Frozen", "other.bias": "Frozen"}


def test_a_name_without_a_parameter_is_an_error() -> None:
    with pytest.raises(ValueError, match="Linear has no parameter weight to freeze"):
        frozen(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), "weight")
